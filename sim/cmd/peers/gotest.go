package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// outcome is the result of a test: pass, fail or skip, and what it printed.
type outcome struct {
	action string
	output []string
}

// binary is a package's compiled tests.
type binary struct {
	file, dir string // dir is where its files are
}

// testTime bounds one job.
const testTime = 30 * time.Minute

// job is tests of one package that run in one process: all of them, or those of a pattern.
type job struct {
	binary
	only string
}

// run compiles the suite's tests once and runs them, each worker against a pvesim of its own,
// so that leftovers and waits of one test do not affect another worker's.
func (s suite) run(ctx context.Context, o options, pvesim, program string) (map[string]outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, suiteTime)
	defer cancel()
	file := strings.NewReplacer("/", "-", " ", "-").Replace(s.name)
	dir, err := s.copy(ctx, filepath.Join(o.dir, file))
	if err != nil {
		return nil, err
	}
	binaries, err := s.compile(ctx, dir)
	if err != nil {
		return nil, err
	}
	jobs, err := s.jobs(ctx, binaries)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(o.dir, file+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	b := &board{log: log, got: map[string]outcome{}}
	queue := make(chan job, len(jobs))
	for _, j := range jobs {
		queue <- j
	}
	close(queue)
	workers, ctx := errgroup.WithContext(ctx)
	for range min(s.workers(), len(jobs)) {
		workers.Go(func() error {
			at, end, err := s.site(ctx, o, pvesim)
			if err != nil {
				return err
			}
			defer end()
			for j := range queue {
				if err := s.work(ctx, j, s.env(at, program), b); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
		return nil, err
	}
	if len(b.got) == 0 {
		return nil, fmt.Errorf("no test ran: see %s", log.Name())
	}
	return b.got, nil
}

// workers is how many of the suite's tests run at a time. A test waits about as long as it
// computes.
func (s suite) workers() int {
	if !s.apart {
		return 1
	}
	return 2 * runtime.NumCPU()
}

// compile compiles the tests of the suite's packages, those that have some.
func (s suite) compile(ctx context.Context, dir string) ([]binary, error) {
	copied := []string{"GOFLAGS=-mod=mod", "GOWORK=off"} // go.sum may lack what only the tests need; the copy may lie in our workspace
	const form = `{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}`
	list, err := goRun(ctx, dir, copied, append([]string{"list", "-tags=" + s.tags, "-f=" + form}, s.packages...)...)
	if err != nil {
		return nil, err
	}
	var out []binary
	for _, at := range strings.Fields(list) {
		b := binary{file: filepath.Join(dir, fmt.Sprintf("peer%d.test", len(out))), dir: at}
		if _, err := goRun(ctx, at, copied, "test", "-c", "-vet=off", "-tags="+s.tags, "-o="+b.file, "."); err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// jobs are a package's tests together or, where they may be apart, each alone.
func (s suite) jobs(ctx context.Context, binaries []binary) ([]job, error) {
	var out []job
	for _, b := range binaries {
		if !s.apart {
			out = append(out, job{b, s.only})
			continue
		}
		cmd := exec.CommandContext(ctx, b.file, "-test.list="+cmp.Or(s.only, "."))
		cmd.Dir = b.dir
		list, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("tests of %s: %w", b.dir, err)
		}
		for _, name := range strings.Fields(string(list)) {
			if strings.HasPrefix(name, "Test") {
				out = append(out, job{b, "^" + name + "$"})
			}
		}
	}
	return out, nil
}

// work runs a job; a test that fails is not an error.
func (s suite) work(ctx context.Context, j job, env []string, b *board) error {
	args := []string{"-test.v=test2json", "-test.timeout=" + testTime.String(), "-test.run=" + j.only}
	if s.skip != "" {
		args = append(args, "-test.skip="+s.skip)
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, j.file, args...)
	cmd.Dir, cmd.Env = j.dir, append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = 10 * time.Second // for what it started
	var failed *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &failed) {
		return err
	}
	events := exec.CommandContext(ctx, "go", "tool", "test2json")
	events.Stdin = bytes.NewReader(said.Bytes())
	out, err := events.Output()
	if err != nil {
		return fmt.Errorf("go tool test2json: %w", err)
	}
	got, err := outcomes(bytes.NewReader(out))
	return errors.Join(err, b.add(got, out))
}

// board collects the workers' results.
type board struct {
	mu  sync.Mutex
	log io.Writer
	got map[string]outcome
}

func (b *board) add(got map[string]outcome, events []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.Copy(b.got, got)
	_, err := b.log.Write(events)
	return err
}

// outcomes reads what test2json prints of the top level's tests.
func outcomes(from io.Reader) (map[string]outcome, error) {
	got := map[string]outcome{}
	for dec := json.NewDecoder(from); ; {
		var e struct{ Action, Test, Output string }
		err := dec.Decode(&e)
		if errors.Is(err, io.EOF) {
			return failUnfinished(got), nil
		}
		if err != nil {
			return got, err
		}
		top, _, sub := strings.Cut(e.Test, "/")
		if top == "" {
			continue
		}
		o := got[top]
		switch {
		case e.Action == "output":
			o.output = append(o.output, e.Output)
		case !sub && slices.Contains([]string{"pass", "fail", "skip"}, e.Action):
			o.action = e.Action
		}
		got[top] = o
	}
}

// failUnfinished counts a test without an end as failed: it ended the process.
func failUnfinished(got map[string]outcome) map[string]outcome {
	for name, o := range got {
		if o.action == "" {
			o.action = "fail"
			got[name] = o
		}
	}
	return got
}

// goRun is what a go command prints.
func goRun(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, failed.Stderr)
	}
	return string(out), err
}
