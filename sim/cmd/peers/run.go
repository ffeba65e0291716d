package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
)

// options select the suites.
type options struct {
	dir  string // where copies, logs and binaries are kept between runs
	only string // what the suites' names begin with; empty: all
	out  io.Writer
}

// suiteTime bounds one suite, its build included.
const suiteTime = 90 * time.Minute

// runSuites runs the suites and prints a table. It returns an error if a test fails unexpectedly, or
// passes although a failure is expected.
func runSuites(ctx context.Context, o options) error {
	expected, err := readExpected()
	if err != nil {
		return err
	}
	if err := checkPrefix(o.only); err != nil {
		return err
	}
	pvesim := filepath.Join(o.dir, "pvesim")
	if _, err := goRun(ctx, ".", nil, "build", "-o", pvesim, "./sim/cmd/pvesim"); err != nil {
		return err
	}
	var problems []error
	for _, s := range suites() {
		if !strings.HasPrefix(s.name, o.only) {
			continue
		}
		program, ok := s.program()
		if !ok {
			_, _ = fmt.Fprintf(o.out, "%s %s: not tried: none of %s is here\n", s.name, s.version, strings.Join(s.needs, ", "))
			continue
		}
		got, err := s.run(ctx, o, pvesim, program)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		problems = append(problems, report(o.out, s, got, expected[s.name])...)
	}
	return errors.Join(problems...)
}

// checkPrefix refuses a prefix that no suite's name has.
func checkPrefix(only string) error {
	var names []string
	for _, s := range suites() {
		names = append(names, s.name)
	}
	slices.Sort(names)
	if !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, only) }) {
		return fmt.Errorf("-only=%s: there are the suites %s", only, strings.Join(names, ", "))
	}
	return nil
}

// program is the first of the programs that a suite needs, by its path.
func (s suite) program() (string, bool) {
	for _, name := range s.needs {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", len(s.needs) == 0
}

// copy makes a copy of the suite's module that can be written to.
func (s suite) copy(ctx context.Context, to string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", s.module+"@"+s.version)
	cmd.Dir = os.TempDir() // outside of any module
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s@%s: %w", s.module, s.version, err)
	}
	var got struct{ Dir string }
	if err := json.Unmarshal(out, &got); err != nil {
		return "", err
	}
	if err := os.RemoveAll(to); err != nil {
		return "", err
	}
	if err := os.CopyFS(to, os.DirFS(got.Dir)); err != nil {
		return "", err
	}
	err = filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o600)
		if d.IsDir() {
			mode = 0o700
		}
		return os.Chmod(path, mode)
	})
	if err == nil && s.prepare != nil {
		err = s.prepare(to)
	}
	return to, err
}

// site starts a pvesim; end stops it.
func (s suite) site(ctx context.Context, o options, pvesim string) (at site, end func(), err error) {
	dir, err := os.MkdirTemp(o.dir, "site-")
	if err != nil {
		return site{}, nil, err
	}
	internet := filepath.Join(dir, "internet")
	if err := os.Mkdir(internet, 0o700); err != nil {
		return site{}, nil, err
	}
	for name, url := range s.files {
		content := make([]byte, 1<<16)
		if url != "" {
			if content, err = guest.DefaultInternet()(url); err != nil {
				return site{}, nil, err
			}
		}
		if err := os.WriteFile(filepath.Join(internet, name), content, 0o600); err != nil {
			return site{}, nil, err
		}
	}
	model := s.model
	if filepath.Ext(model) != "" {
		model = filepath.Join("sim", "cmd", "peers", "testdata", model)
	}
	cmd := exec.CommandContext(ctx, pvesim, "-listen=127.0.0.1:0", "-ssh=127.0.0.1:0", "-speed=100", "-dir="+filepath.Join(dir, "sim"),
		"-internet="+internet, "-model="+model, "-requests="+filepath.Join(dir, "requests.jsonl"))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	said := &strings.Builder{} // read after its end
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return site{}, nil, err
	}
	if err := cmd.Start(); err != nil {
		return site{}, nil, err
	}
	end = func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	at, err = readSite(out, filepath.Join(dir, "sim"))
	if err != nil {
		end()
		err = fmt.Errorf("%w: %s", err, said)
	}
	return at, end, err
}

// readSite reads a pvesim's address and secrets.
func readSite(said io.Reader, dir string) (site, error) {
	at := site{node: "pve", storage: "local", dir: dir, tokenID: "root@pam!pvesim", sshKey: filepath.Join(dir, "ssh-key")}
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		switch {
		case len(f) > 2 && f[1] == "endpoint":
			at.endpoint = f[2]
		case len(f) > 2 && f[1] == "ssh":
			if i := slices.Index(f, "-p"); i > 0 && i+1 < len(f) {
				at.sshPort = f[i+1]
			}
		case strings.HasPrefix(lines.Text(), "export PROXMOX_TOKEN_SECRET="): // the last
			at.password, at.secret = strings.TrimSpace(read(filepath.Join(dir, "root-password"))), strings.TrimSpace(read(filepath.Join(dir, "root-token")))
			go func() { _, _ = io.Copy(io.Discard, said) }() // ends with the process
			return at, nil
		}
	}
	return site{}, errors.Join(errors.New("pvesim did not start"), lines.Err())
}

// report prints one suite's table and returns what is not as expected.
func report(out io.Writer, s suite, got map[string]outcome, expected map[string]string) []error {
	var problems []error
	count := map[string]int{}
	for _, test := range slices.Sorted(maps.Keys(got)) {
		o := got[test]
		count[o.action]++
		why, known := expected[test]
		switch {
		case o.action == "fail" && !known:
			problems = append(problems, fmt.Errorf("%s: %s failed:\n  %s", s.name, test, strings.Join(last(o.output, 12), "  ")))
		case o.action == "fail":
			_, _ = fmt.Fprintf(out, "  %-60s fails: %s\n", test, why)
		case o.action == "pass" && known:
			problems = append(problems, fmt.Errorf("%s: %s passes now: take it off expected.yaml", s.name, test))
		}
	}
	_, _ = fmt.Fprintf(out, "%s %s: %d passed, %d failed, %d skipped\n", s.name, s.version, count["pass"], count["fail"], count["skip"])
	return problems
}

func last(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }
