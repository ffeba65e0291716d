//go:build mage

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/magefile/mage/mg"
)

// Sim tests the simulated Proxmox VE.
type Sim mg.Namespace

// Coverage compares the simulator with Proxmox's API schema; exit code 1 if it lacks a method that the product calls.
func (Sim) Coverage(ctx context.Context) error {
	return run(ctx, "go", "test", "./sim/conform", "-count=1", "-v", "-run", "TestCoverage$")
}

// Conform repeats recorded requests to real Proxmox VE daemons on the simulator, and compares the answers; exit code 1 for an
// unexplained difference.
func (Sim) Conform(ctx context.Context,
	data *string, // FILE,FILE: compare with these recordings
	show *string, // SCENARIO: print every exchange of the scenarios that this pattern matches
) error {
	if err := run(ctx, "go", "test", "-c", "-o", ".lab/bin/conform.test", "./sim/conform"); err != nil {
		return err
	}
	table, err := filepath.Abs(".lab/conform.txt")
	if err != nil {
		return err
	}
	args := []string{"-test.run", "TestConform$|TestAnswers", "-table=" + table}
	if show != nil {
		args = append(args, "-show="+*show)
	}
	if data != nil {
		var whole []string
		for _, file := range strings.Split(*data, ",") {
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

// Peers runs other projects' test suites against the simulator; exit code 1 if a test fails unexpectedly, or passes although the list
// expects a failure.
func (Sim) Peers(ctx context.Context,
	only *string, // SUITE: run this suite, or those with this prefix
) error {
	if only == nil {
		return runPeers(ctx, "")
	}
	return runPeers(ctx, *only)
}

// runPeers runs the suites whose names begin so.
func runPeers(ctx context.Context, only string) error {
	if err := os.MkdirAll(".lab/peers", 0o700); err != nil {
		return err
	}
	dir, err := filepath.Abs(".lab/peers")
	if err != nil {
		return err
	}
	const program = ".lab/bin/peers"
	if err := run(ctx, "go", "build", "-o", program, "./sim/cmd/peers"); err != nil {
		return err
	}
	return run(ctx, program, "-dir="+dir, "-only="+only)
}

// Guests bakes, boots and reboots a real Debian in QEMU behind the simulator: some minutes, as root, with Debian's packages for it.
func (Sim) Guests(ctx context.Context) error {
	return run(ctx, append(guestTests(), "-count=1", "-timeout", "30m")...)
}

// Faults injects a fault at every request and connection of whole lives, and expects the next run to
// recover.
func (Sim) Faults(ctx context.Context,
	runs *string, // main|all|sample: which runs; default: main
	done *string, // FILE: the runs that passed; continue from there
	repro *string, // RUN: only this run, in detail
) error {
	kind := "main"
	if runs != nil {
		kind = *runs
	}
	if !slices.Contains([]string{"main", "all", "sample"}, kind) {
		return mg.Fatalf(3, "-runs=%s: write main, all or sample", kind)
	}
	if err := run(ctx, "go", "test", "-c", "-o", ".lab/bin/cluster.test", "./cluster"); err != nil {
		return err
	}
	test := []string{"sh", "-c", `cd cluster && exec ../.lab/bin/cluster.test -test.run 'TestCampaign$' -test.parallel 8 "$@"`, "sh", "-campaign=" + kind}
	if done != nil {
		file, err := filepath.Abs(*done)
		if err != nil {
			return err
		}
		test = append(test, "-campaign.done="+file)
	}
	if repro != nil {
		test = append(test, "-test.v", "-campaign.repro="+*repro)
	}
	_ = os.Setenv("GOGC", "800") // many short lives, little that stays
	return run(ctx, test...)
}
