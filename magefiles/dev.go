//go:build mage

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/cps-gpu/homelab/internal/labctl"
)

// alone is the environment of commands in a module that go.work does not list, or that is checked with the versions of
// its own go.mod.
const alone = "GOWORK=off"

// Lint runs the linters of .golangci.yml on every module, and looks up known advisories.
func Lint(ctx context.Context) error {
	const linter = "github.com/golangci/golangci-lint/v2/cmd/golangci-lint"
	if err := compileAsTheLab(); err != nil {
		return err
	}
	if err := run(ctx, "env", alone, "go", "-C", ".ci/tools", "build", "-o", "../../.lab/bin/golangci-lint", linter); err != nil {
		return err
	}
	if err := run(ctx, ".lab/bin/golangci-lint", "run", "./..."); err != nil {
		return err
	}
	for dir, root := range map[string]string{"sim": "..", "sim/lab": "../..", "sim/lab/kubernetes": "../../..", "sim/lab/kubeadm": "../../..", "talos": ".."} {
		if err := run(ctx, "env", alone, "sh", "-c", "cd "+dir+" && "+root+"/.lab/bin/golangci-lint run -c "+root+"/.golangci.yml ./..."); err != nil {
			return err
		}
	}
	return advisories(ctx)
}

// advisories looks up known vulnerabilities of our code and its dependencies. It fails if
// vulnerable code is called. If the database does not answer, it says so.
func advisories(ctx context.Context) error {
	const checker = "golang.org/x/vuln/cmd/govulncheck"
	if err := run(ctx, "env", alone, "go", "-C", ".ci/tools", "build", "-o", "../../.lab/bin/govulncheck", checker); err != nil {
		return err
	}
	for dir, pkg := range map[string]string{".": "cluster", "sim": "pvesim", "sim/lab": "operators", "sim/lab/kubernetes": "component", "sim/lab/kubeadm": "pause", "talos": "internal/config"} {
		workspace := alone
		if dir == "." {
			workspace = "GOWORK=" // some packages are for tests, and import sim
		}
		// First only versions are compared, which takes a second; following calls takes minutes.
		// govulncheck must run in some package, and compares the whole module.
		found, asked, err := findAdvisories(ctx, workspace, "-C", dir+"/"+pkg, "-scan=module")
		if err != nil || !asked {
			return err
		}
		if !found {
			continue
		}
		if err := run(ctx, "env", workspace, ".lab/bin/govulncheck", "-C", dir, "./..."); err != nil {
			return err
		}
	}
	// The module tools has no packages of its own, so its binaries are checked.
	for _, tool := range []string{"golangci-lint", "govulncheck"} {
		found, _, err := findAdvisories(ctx, alone, "-mode=binary", ".lab/bin/"+tool)
		if err != nil {
			return err
		}
		if found {
			return run(ctx, ".lab/bin/govulncheck", "-mode=binary", ".lab/bin/"+tool)
		}
	}
	return nil
}

// findAdvisories looks up advisories, and reports whether there are any. If the database cannot be
// reached it says so; any other failure is an error.
func findAdvisories(ctx context.Context, workspace string, args ...string) (found, asked bool, err error) {
	cmd := exec.CommandContext(ctx, ".lab/bin/govulncheck", args...)
	cmd.Env = append(os.Environ(), workspace)
	out, err := cmd.CombinedOutput()
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
	return runEach(ctx, [][]string{
		{"go", "test", "-c", "-o", ".lab/bin/cluster.test", "./cluster"},
		{"sh", "-c", "cd cluster && ../.lab/bin/cluster.test -test.run Measure -measure"},
		{"go", "test", "-run", "TestCostBesideTheLeastPossible", "-count=1", "-v", "./proxmox"},
		{"go", "test", "-run", "^$", "-bench", ".", "./proxmox", "./remote/ssh", "./fleet"},
		{"go", "test", "-run", "^$", "-bench", "Page", "-benchtime", "10x", "./internal/session/report"},
	})
}

func runEach(ctx context.Context, commands [][]string) error {
	for _, c := range commands {
		if err := run(ctx, c...); err != nil {
			return err
		}
	}
	return nil
}

// compileAsTheLab has each go command compile with the flags of the lab and of mage's program. They share nearly all
// packages, Kubernetes' among them, and with other flags each would be compiled twice.
func compileAsTheLab() error {
	return os.Setenv("GOFLAGS", strings.Join(labctl.CompilerFlags(), " ")+" "+os.Getenv("GOFLAGS"))
}

// run runs a command with our streams. Mage's own helpers take no context.
func run(ctx context.Context, argv ...string) error {
	return command(ctx, argv...).Run()
}

// command is one that has our streams.
func command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}
