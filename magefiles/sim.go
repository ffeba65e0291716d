//go:build mage

package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/sim/conform"
	"github.com/cps-gpu/homelab/sim/peers"
)

// Sim is about the simulated Proxmox VE.
type Sim mg.Namespace

// Coverage compares the simulator with Proxmox's API schema; exit code 1 where the product asks for what is not there.
func (Sim) Coverage() error {
	r, err := conform.Coverage(".")
	if err != nil {
		return err
	}
	return errors.Join(r.Print(os.Stdout), r.Err())
}

// Conform asks the simulator what real Proxmox VE daemons were asked, and compares the answers; exit code 1 for a difference that nobody explains. Flags: -data=FILE,FILE -show=SCENARIO.
func (Sim) Conform(ctx context.Context, data, show *string) error {
	if err := run(ctx, "go", "test", "-c", "-o", ".lab/bin/conform.test", "./sim/conform"); err != nil {
		return err
	}
	table, err := filepath.Abs(".lab/conform.txt")
	if err != nil {
		return err
	}
	args := []string{"-test.run", "TestConform$|TestAnswers", "-table=" + table, "-show=" + value(show)}
	if files := value(data); files != "" {
		var whole []string
		for _, file := range strings.Split(files, ",") {
			if file, err = filepath.Abs(file); err != nil {
				return err
			}
			whole = append(whole, file)
		}
		args = append(args, "-data="+strings.Join(whole, ","))
	}
	_ = os.Remove(table)
	test := exec.CommandContext(ctx, filepath.Join(filepath.Dir(table), "bin", "conform.test"), args...)
	test.Dir = "sim/conform"
	said, failed := test.CombinedOutput()
	found, err := os.ReadFile(table)
	if err != nil {
		return errors.Join(failed, err, errors.New(string(said)))
	}
	_, err = os.Stdout.Write(found)
	return errors.Join(failed, err)
}

// Peers tries other people's test suites on the simulator; exit code 1 for a test that fails without a reason in the list, or passes in spite of one. Flags: -only=SUITE, or how its name begins.
func (Sim) Peers(ctx context.Context, only *string) error {
	if err := os.MkdirAll(".lab/peers", 0o700); err != nil {
		return err
	}
	dir, err := filepath.Abs(".lab/peers")
	if err != nil {
		return err
	}
	return peers.Run(ctx, peers.Options{Root: ".", Dir: dir, Only: value(only), Out: os.Stdout})
}

// Guests bakes, boots and reboots a real Debian in QEMU behind the simulator: some minutes, as root, with Debian's packages for it.
func (Sim) Guests(ctx context.Context) error {
	return run(ctx, append(guestTests(), "-count=1", "-timeout", "30m")...)
}

// Faults breaks things at every request and connection of whole lives, and expects the next run to fix them. Flags: -runs=main|all|sample -done=FILE (of what was survived: goes on from there) -repro=RUN.
func (Sim) Faults(ctx context.Context, runs, done, repro *string) error {
	kind := cmp.Or(value(runs), "main")
	if !slices.Contains([]string{"main", "all", "sample"}, kind) {
		return mg.Fatalf(3, "-runs=%s: write main, all or sample", kind)
	}
	if err := run(ctx, "go", "test", "-c", "-o", ".lab/bin/cluster.test", "./cluster"); err != nil {
		return err
	}
	test := []string{"sh", "-c", `cd cluster && exec ../.lab/bin/cluster.test -test.run 'TestCampaign$' -test.parallel 8 "$@"`, "sh", "-campaign=" + kind}
	if file := value(done); file != "" {
		file, err := filepath.Abs(file)
		if err != nil {
			return err
		}
		test = append(test, "-campaign.done="+file)
	}
	if value(repro) != "" {
		test = append(test, "-test.v", "-campaign.repro="+*repro)
	}
	_ = os.Setenv("GOGC", "800") // many short lives, little that stays
	return run(ctx, test...)
}
