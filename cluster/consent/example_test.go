package consent_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/cps-gpu/homelab/cluster/consent"
	"github.com/cps-gpu/homelab/converge"
)

// Whoever may restart machines may not destroy any.
func Example() {
	agreed := &consent.Agreement{Restarts: true}
	graph := converge.Graph{Approve: agreed.May}
	graph.Add(&converge.Resource[bool]{
		ID:      "removed",
		Observe: func(context.Context) (bool, error) { return true, nil },
		Diff:    func(bool) converge.Diff { return converge.Unwanted("VM 108 on pve1") },
		Apply:   func(context.Context, bool) error { panic("destroyed") },
		Costs: func(context.Context, bool, converge.Diff) []converge.Cost {
			return []converge.Cost{{Machine: "wk4", Kind: converge.CostDestroy, Reason: "no longer in the file", Users: []converge.Loss{{Text: "the notebook of student3"}}}}
		},
	})
	_, err := graph.Run(context.Background(), nil)
	var no *consent.RefusedError
	if errors.As(err, &no) {
		fmt.Println(no.Costs[0], "and with it", no.Costs[0].Users[0])
	}
	fmt.Println(consent.Flags(no.Costs...))
	// Output:
	// wk4 is destroyed and with it the notebook of student3
	// -destroy=wk4
}
