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

// Conform asks the simulator what real Proxmox VE daemons were asked, and compares the answers; exit code 1 for a difference that nobody explains.
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

// Peers tries other people's test suites on the simulator; exit code 1 for a test that fails without a reason in the list, or passes in spite of one.
func (Sim) Peers(ctx context.Context,
	only *string, // SUITE: run this suite, or those whose names begin so
) error {
	if err := os.MkdirAll(".lab/peers", 0o700); err != nil {
		return err
	}
	dir, err := filepath.Abs(".lab/peers")
	if err != nil {
		return err
	}
	o := peers.Options{Root: ".", Dir: dir, Out: os.Stdout}
	if only != nil {
		o.Only = *only
	}
	return peers.Run(ctx, o)
}

// Guests bakes, boots and reboots a real Debian in QEMU behind the simulator: some minutes, as root, with Debian's packages for it.
func (Sim) Guests(ctx context.Context) error {
	return run(ctx, append(guestTests(), "-count=1", "-timeout", "30m")...)
}

// Faults breaks things at every request and connection of whole lives, and expects the next run to fix them.
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
