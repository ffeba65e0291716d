package verify_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/cps-gpu/homelab/kube/verify"
)

// Checks run side by side; their results are in their order.
func Example() {
	checks := []verify.Check{
		{Part: "logs", Name: "a line of a pod is found", Try: func(context.Context, verify.Cluster) (string, error) { return "2s after it was written", nil }},
		{Part: "velero", Name: "its bucket can be reached", Try: func(context.Context, verify.Cluster) (string, error) {
			return "", errors.New("the bucket backups is Unavailable: no such host")
		}},
		{Part: "fleet", Name: "none", Try: func(context.Context, verify.Cluster) (string, error) {
			return "", verify.UncheckedError("fleet:status tries it")
		}},
	}
	for _, r := range verify.Run(context.Background(), verify.Cluster{}, checks) {
		switch {
		case r.Passed():
			fmt.Printf("%s: %s: %s\n", r.Part, r.Name, r.Seen)
		case r.UncheckedReason() != "":
			fmt.Printf("%s: not tried: %s\n", r.Part, r.UncheckedReason())
		default:
			fmt.Printf("%s: FAILED: %v\n", r.Part, r.Err)
		}
	}
	// Output:
	// logs: a line of a pod is found: 2s after it was written
	// velero: FAILED: the bucket backups is Unavailable: no such host
	// fleet: not tried: fleet:status tries it
}
