//go:build mage

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Test runs all tests: the library with the race detector, a real guest where QEMU is, then the lab with its real control plane.
func Test(ctx context.Context) error {
	race := "-race "
	if out, err := exec.CommandContext(ctx, "go", "env", "CGO_ENABLED").Output(); err == nil && strings.TrimSpace(string(out)) == "0" {
		fmt.Fprintln(os.Stderr, "No C compiler here, which the race detector needs: testing without it.")
		race = ""
	}
	return each(ctx, [][]string{
		{"go", "vet", "./..."},
		// The lives of whole clusters take four times as long under the race detector;
		// internal/session, examples and proxmox run the same code under it.
		{"sh", "-c", "go test " + race + "$(go list ./... | grep -v '/homelab/cluster$')"},
		{"go", "test", "-timeout", "20m", "-skip", realGuests, "./cluster"},
		// By itself, as an emulated machine wants a processor's whole attention. -v tells why
		// it is left out where it is.
		append(guestTests(), "-timeout", "20m"),
		{"go", "-C", "lab", "vet", "./..."},
		{"go", "-C", "lab", "test", "-timeout", "20m", "./..."},
	})
}

// realGuests are the tests that boot machines in QEMU.
const realGuests = "^TestRealGuest"

func guestTests() []string {
	return []string{"go", "test", "-v", "-run", realGuests, "./cluster"}
}

// Lint runs the linters of .golangci.yml over every module.
func Lint(ctx context.Context) error {
	const linter = "github.com/golangci/golangci-lint/v2/cmd/golangci-lint"
	if err := run(ctx, "go", "-C", "tools", "build", "-o", "../.lab/bin/golangci-lint", linter); err != nil {
		return err
	}
	if err := run(ctx, ".lab/bin/golangci-lint", "run", "./..."); err != nil {
		return err
	}
	return run(ctx, "sh", "-c", "cd lab && ../.lab/bin/golangci-lint run -c ../.golangci.yml ./...")
}

// Bench prints what docs/performance.md records: requests, virtual makespan, real time, memory.
func Bench(ctx context.Context) error {
	return each(ctx, [][]string{
		{"go", "test", "-c", "-o", ".lab/bin/cluster.test", "./cluster"},
		{"sh", "-c", "cd cluster && ../.lab/bin/cluster.test -test.run Measure -measure"},
		{"go", "test", "-run", "TestCostBesideTheLeastPossible", "-count=1", "-v", "./proxmox"},
		{"go", "test", "-run", "^$", "-bench", ".", "./proxmox", "./remote/ssh", "./fleet"},
	})
}

func each(ctx context.Context, commands [][]string) error {
	for _, c := range commands {
		if err := run(ctx, c...); err != nil {
			return err
		}
	}
	return nil
}

// run runs a command with our streams. Mage's own helpers know no context.
func run(ctx context.Context, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
