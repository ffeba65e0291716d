//go:build mage

package main

import (
	"context"
	"os"

	"github.com/magefile/mage/mg"
)

// Sim is about the simulated Proxmox VE.
type Sim mg.Namespace

// Faults breaks things at every request of whole lives, and expects the next run to mend them. Flags: -runs=main|all|sample -repro=RUN.
func (Sim) Faults(ctx context.Context, runs, repro *string) error {
	if err := words(); err != nil {
		return err
	}
	if err := run(ctx, "go", "test", "-c", "-o", ".lab/bin/cluster.test", "./cluster"); err != nil {
		return err
	}
	kind := value(runs)
	if kind == "" {
		kind = "main"
	}
	test := []string{"sh", "-c", `cd cluster && exec ../.lab/bin/cluster.test -test.run 'TestCampaign$' "$@"`, "sh", "-campaign=" + kind}
	if value(repro) != "" {
		test = append(test, "-test.v", "-campaign.repro="+*repro)
	}
	_ = os.Setenv("GOGC", "400") // many short lives, little that stays
	return run(ctx, test...)
}
