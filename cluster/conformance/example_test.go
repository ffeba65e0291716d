package conformance_test

import (
	"fmt"

	"github.com/cps-gpu/homelab/cluster/conformance"
)

// A report comes from [conformance.Check]. What binds and is not shown is still to do.
func ExampleReport_Missing() {
	r := conformance.Report{Kubernetes: "v1.36.5+k3s1", Requirements: "1.36", Findings: []conformance.Finding{
		{ID: "gang_scheduling", Level: conformance.Must, Result: conformance.Failed, Do: "queues: installs Kueue"},
		{ID: "cluster_autoscaling", Level: conformance.Must, Result: conformance.NotApplicable},
		{ID: "gpu_sharing", Level: conformance.Should, Result: conformance.NotShown},
	}}
	for _, f := range r.Missing() {
		fmt.Println(f.ID, f.Result+":", f.Do)
	}
	// Output: gang_scheduling failed: queues: installs Kueue
}
