//go:build mage

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
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

// test runs the library with the race detector, a real guest if QEMU is installed, then the
// lab with its real control plane.
func test(ctx context.Context, mine string) error {
	if err := os.Setenv(share.Variable, mine); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "Campaigns run with %s=%s; go tool mage testAll runs them whole.\n", share.Variable, mine)
	race := "-race "
	if out, err := exec.CommandContext(ctx, "go", "env", "CGO_ENABLED").Output(); err == nil && strings.TrimSpace(string(out)) == "0" {
		fmt.Fprintln(os.Stderr, "No C compiler here, which the race detector needs: testing without it.")
		race = ""
	}
	if err := each(ctx, [][]string{
		{"go", "vet", "./..."},
		{"sh", "-c", "go test " + race + "$(go list ./... | grep -Ev '" + raceless + "')"},
	}); err != nil {
		return err
	}
	if err := beside(ctx); err != nil {
		return err
	}
	if err := runPeers(ctx, "go-proxmox"); err != nil { // the one that needs nothing but Go
		return err
	}
	return each(ctx, [][]string{
		{"go", "-C", "sim/lab", "vet", "./..."},
		{"go", "-C", "sim/lab/kubernetes", "vet", "./..."},
		// Lives in the lab mostly wait.
		{"go", "-C", "sim/lab", "test", "-timeout", "20m", "-parallel", "3", "./..."},
	})
}

// raceless are the packages that are tested without the race detector. With it, the lives of
// whole clusters take four times as long, and the comparisons of sim/conform ten times;
// internal/session, internal/trial, proxmox and sim/pvesim run the same code with it. The
// other packages use one goroutine.
const raceless = "/homelab/(cluster|cluster/clusterfile|cloudinit|cluster/spec|proxmox/unit|examples.*|cmd/homelab|docs/.*|sim/conform|" +
	"internal/(archtest|words|share|yamlbound|yamlnode|iso9660|suggest|printable|distro|schedule|names|datadisk))$"

// beside runs the real guests, whose emulation needs a whole processor, and on the other
// processors the tests without the race detector. -v shows why guests are skipped.
func beside(ctx context.Context) error {
	most := strconv.Itoa(max(1, runtime.NumCPU()-1))
	const packages = " $(go list ./... | grep -E '" + raceless + "')"
	others := exec.CommandContext(ctx, "sh", "-c", "go test -timeout 20m -skip "+realGuests+" -p "+most+packages)
	others.Env = append(os.Environ(), "GOMAXPROCS=1")
	others.Stdout, others.Stderr = os.Stdout, os.Stderr
	if err := others.Start(); err != nil {
		return err
	}
	err := run(ctx, append(guestTests(), "-timeout", "20m")...)
	return errors.Join(err, others.Wait())
}

// realGuests are the tests that boot machines in QEMU.
const realGuests = "^TestRealGuest"

func guestTests() []string {
	return []string{"go", "test", "-v", "-run", realGuests, "./cluster"}
}

// Lint runs the linters of .golangci.yml on every module, and looks up known advisories.
func Lint(ctx context.Context) error {
	const linter = "github.com/golangci/golangci-lint/v2/cmd/golangci-lint"
	if err := run(ctx, "go", "-C", ".ci/tools", "build", "-o", "../../.lab/bin/golangci-lint", linter); err != nil {
		return err
	}
	if err := run(ctx, ".lab/bin/golangci-lint", "run", "./..."); err != nil {
		return err
	}
	for dir, root := range map[string]string{"sim/lab": "../..", "sim/lab/kubernetes": "../../.."} {
		if err := run(ctx, "sh", "-c", "cd "+dir+" && "+root+"/.lab/bin/golangci-lint run -c "+root+"/.golangci.yml ./..."); err != nil {
			return err
		}
	}
	return advisories(ctx)
}

// advisories looks up known vulnerabilities of our code and its dependencies. It fails if
// vulnerable code is called. If the database does not answer, it says so.
func advisories(ctx context.Context) error {
	const checker = "golang.org/x/vuln/cmd/govulncheck"
	if err := run(ctx, "go", "-C", ".ci/tools", "build", "-o", "../../.lab/bin/govulncheck", checker); err != nil {
		return err
	}
	for dir, pkg := range map[string]string{".": "cluster", "sim/lab": "operators", "sim/lab/kubernetes": "component"} {
		// First only versions are compared, which takes a second; following calls takes minutes.
		// govulncheck must run in some package, and compares the whole module.
		found, asked, err := lookUp(ctx, "-C", dir+"/"+pkg, "-scan=module")
		if err != nil || !asked {
			return err
		}
		if !found {
			continue
		}
		if err := run(ctx, ".lab/bin/govulncheck", "-C", dir, "./..."); err != nil {
			return err
		}
	}
	// The module tools has no packages of its own, so its binaries are checked.
	for _, tool := range []string{"golangci-lint", "govulncheck"} {
		found, _, err := lookUp(ctx, "-mode=binary", ".lab/bin/"+tool)
		if err != nil {
			return err
		}
		if found {
			return run(ctx, ".lab/bin/govulncheck", "-mode=binary", ".lab/bin/"+tool)
		}
	}
	return nil
}

// lookUp looks up advisories, and reports whether there are any. If the database cannot be
// reached it says so; any other failure is an error.
func lookUp(ctx context.Context, args ...string) (found, asked bool, err error) {
	out, err := exec.CommandContext(ctx, ".lab/bin/govulncheck", args...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	last := text[strings.LastIndex(text, "\n")+1:]
	var exit *exec.ExitError
	switch {
	case err == nil:
		return false, true, nil
	case ctx.Err() != nil || !errors.As(err, &exit):
		return false, false, err
	case exit.ExitCode() == advisoriesFound:
		return true, true, nil
	case strings.HasPrefix(last, unreachable):
		fmt.Fprintf(os.Stderr, "Advisories were NOT looked up, since their database does not answer: %s\n", last)
		return false, false, nil
	}
	return false, false, fmt.Errorf("govulncheck %s: %w\n%s", strings.Join(args, " "), err, text)
}

const (
	// advisoriesFound is govulncheck's exit status when it found something
	// (golang.org/x/vuln, internal/scan/errors.go).
	advisoriesFound = 3
	// unreachable is the start of govulncheck's message if its database cannot be reached: its
	// own text and that of net/http (internal/vulncheck/fetch.go). Invalid answers of the
	// database give other messages.
	unreachable = "govulncheck: fetching vulnerabilities: Get \"https://"
)

// Bench prints what docs/performance.md records: requests, virtual makespan, real time, memory.
func Bench(ctx context.Context) error {
	return each(ctx, [][]string{
		{"go", "test", "-c", "-o", ".lab/bin/cluster.test", "./cluster"},
		{"sh", "-c", "cd cluster && ../.lab/bin/cluster.test -test.run Measure -measure"},
		{"go", "test", "-run", "TestCostBesideTheLeastPossible", "-count=1", "-v", "./proxmox"},
		{"go", "test", "-run", "^$", "-bench", ".", "./proxmox", "./remote/ssh", "./fleet"},
		{"go", "test", "-run", "^$", "-bench", "Page", "-benchtime", "10x", "./internal/page"},
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

// run runs a command with our streams. Mage's own helpers take no context.
func run(ctx context.Context, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
