//go:build mage

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/share"
)

// Test runs all tests, and a tenth of the campaigns: another one for each commit, or the one that HOMELAB_SHARE=K/N names.
func Test(ctx context.Context) error {
	const tenth = 10
	mine := os.Getenv(share.Variable)
	if mine == "" {
		var err error
		if mine, err = share.OfCommit(ctx, ".", tenth); err != nil {
			if os.Getenv("CI") != "" {
				return fmt.Errorf("the share of the campaigns follows from the commit: name one with %s=K/%d: %w", share.Variable, tenth, err)
			}
			mine = fmt.Sprintf("1/%d", tenth)
			fmt.Fprintf(os.Stderr, "The share of the campaigns does not follow from a commit here: %v\n", err)
		}
	}
	return test(ctx, mine)
}

// TestAll runs all tests with every case of the campaigns, for use before a release.
func TestAll(ctx context.Context) error { return test(ctx, share.All) }

// test runs the library, half of it with the race detector, a real guest if QEMU is installed, and
// the lab with its real control plane. The lab's tests mostly wait, so the library's are run
// meanwhile. Nothing is vetted here: lint does that.
func test(ctx context.Context, mine string) error {
	if err := errors.Join(os.Setenv(share.Variable, mine), compileAsTheLab()); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "Campaigns run with %s=%s; go tool mage testAll runs them whole.\n", share.Variable, mine)
	lab := command(ctx, "go", "-C", "sim/lab", "test", "-vet=off", "-timeout", "40m", "-parallel", "3", "./...")
	if err := lab.Start(); err != nil {
		return err
	}
	real := make(chan error, 1)
	go func() { real <- errors.Join(lab.Wait(), runKubeadm(ctx)) }()
	return errors.Join(library(ctx), runTalos(ctx), <-real)
}

// runTalos tests the module with Talos' packages. It is alone, so that it decides on no version of ours.
func runTalos(ctx context.Context) error {
	return run(ctx, "env", alone, "go", "-C", "talos", "test", "./...")
}

// runKubeadm has a cluster of real machines, in namespaces, with the programs of kubeadm's. It goes after the lab,
// which has compiled most of what these are made of, and mostly waits like it.
func runKubeadm(ctx context.Context) error {
	return run(ctx, "env", alone, "go", "-C", "sim/lab/kubeadm", "test", "-vet=off", "-v", "-timeout", "20m", "./...")
}

func library(ctx context.Context) error {
	concurrent, others, err := packages(ctx)
	if err != nil {
		return err
	}
	race := []string{"-race"}
	if out, err := exec.CommandContext(ctx, "go", "env", "CGO_ENABLED").Output(); err == nil && strings.TrimSpace(string(out)) == "0" {
		fmt.Fprintln(os.Stderr, "No C compiler here, which the race detector needs: testing without it.")
		race = nil
	}
	return errors.Join( // one red test does not hide another
		goTest(ctx, slices.Concat(race, []string{"-skip", raceless}, concurrent)...).Run(),
		runWithGuests(ctx, others),
		runPeers(ctx, "go-proxmox")) // the one that needs nothing but Go
}

// goTest is go test for the library. Its programs are short-lived and small: collecting garbage
// a quarter as often, and no samples for a profile of the memory, saves a sixth of their time. The lab and
// real guests, whose clocks are real, go before it.
func goTest(ctx context.Context, args ...string) *exec.Cmd {
	cmd := command(ctx, append([]string{"nice", "-n", "5", "go", "test", "-vet=off", "-timeout", "20m"}, args...)...)
	cmd.Env = append(os.Environ(), "GOGC=400", "GODEBUG=memprofilerate=0")
	return cmd
}

// packages are those that are tested with the race detector, and the others: one finds races where
// the code or the tests of a package start goroutines. With the detector the lives of whole clusters
// take four times as long, and the comparisons of sim/conform ten times; internal/session,
// internal/trial, proxmox and sim/pvesim run the same code with it.
func packages(ctx context.Context) (concurrent, others []string, err error) {
	const each = "{{.ImportPath}}\t{{.Dir}}\t{{range .GoFiles}}{{.}}\t{{end}}{{range .TestGoFiles}}{{.}}\t{{end}}{{range .XTestGoFiles}}{{.}}\t{{end}}"
	out, err := exec.CommandContext(ctx, "go", "list", "-f", each, "./...", "./sim/...").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		is := false
		for _, file := range fields[2:] {
			text, err := os.ReadFile(filepath.Join(fields[1], file))
			if err != nil {
				return nil, nil, err
			}
			is = is || startsGoroutine.Match(text)
		}
		if is && !whole.MatchString(fields[0]) {
			concurrent = append(concurrent, fields[0])
		} else {
			others = append(others, fields[0])
		}
	}
	return concurrent, others, nil
}

var (
	startsGoroutine = regexp.MustCompile(`(?m)^\s*go (func\b|[\w.]+\()|\.Go\(|\bAfterFunc\(|\bt\.Parallel\(`)
	whole           = regexp.MustCompile(`/homelab/(cluster|examples.*|sim/conform)$`)
)

// runWithGuests runs the real guests, whose emulation needs a whole processor, and with what they and the lab leave the
// tests without the race detector. -v shows why guests are skipped.
func runWithGuests(ctx context.Context, packages []string) error {
	others := goTest(ctx, append([]string{"-skip", realGuests}, packages...)...)
	if err := others.Start(); err != nil {
		return err
	}
	err := run(ctx, append(guestTests(), "-timeout", "20m")...)
	return errors.Join(err, others.Wait(), goTest(ctx, "-run", raceless, "./internal/session").Run())
}

// raceless are tests of internal/session on all files that the repository has: their lives, and each key with odd values.
// With the race detector they take ten times as long, and others run the same code with it.
const raceless = "^Test(Frozen|NumbersAreJudgedFirst|WordsStayWords|FilesAreJudgedFirst)"

// realGuests are the tests that boot machines in QEMU.
const realGuests = "^TestRealGuest"

func guestTests() []string {
	return []string{"go", "test", "-vet=off", "-v", "-run", realGuests, "./cluster"}
}
