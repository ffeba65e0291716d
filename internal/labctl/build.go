package labctl

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/converge"
)

// KubernetesVersion is the version of the lab's control plane. kubectl needs it in the
// program's version variables.
const KubernetesVersion = "v1.36.3"

// program is one of the lab's programs.
type program struct {
	name   string
	module string // its folder, in the lab's
	path   string // of its package, in the module

	what     string // is compiled the first time
	packages int    // about as many are, where the magefile is compiled already
}

// program is that which has what is real.
func (g Guests) program() program {
	if g.Kubernetes || g.Real() {
		return program{"labd-kubernetes", "kubernetes", ".", "the lab with Kubernetes, once, 4 to 8 minutes on two cores", 2600}
	}
	return program{"labd", "", "./cmd/labd", "the lab, once, a minute or two", 500}
}

// Program is the name of the lab's program that has what is real, in the folder bin of the lab's.
func Program(guests Guests) string { return guests.program().name }

// program is that which the lab needs.
func (o Options) program() program {
	if o.Needs != nil {
		return o.Needs.Guests.program()
	}
	return o.Guests.program()
}

// Build builds the program that the lab needs in o.Dir and returns its path. With a warm build
// cache it takes a second or two; the first time it compiles for a minute, and Kubernetes for
// many, and shows progress.
func Build(ctx context.Context, o Options) (string, error) {
	if runtime.GOOS == "windows" {
		return "", errors.New("the lab needs Linux or macOS, and this is Windows: run it in WSL, or point proxmox.endpoint at a real host")
	}
	which := o.program()
	from, err := o.find(ctx)
	if err != nil {
		return "", err
	}
	dir, err := o.dir()
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, binFolder, which.name)
	minor := strings.Split(strings.TrimPrefix(KubernetesVersion, "v"), ".")
	const variables = "k8s.io/component-base/version."
	flags := "-s -w -X " + variables + "gitVersion=" + KubernetesVersion +
		" -X " + variables + "gitMajor=" + minor[0] + " -X " + variables + "gitMinor=" + minor[1]
	args := append([]string{"build", "-C", from.dir, "-v", "-buildvcs=false", "-mod=readonly", "-modfile=" + from.modfile, "-ldflags", flags}, CompilerFlags()...)
	args = append(args, "-o", out, which.path)
	cmd := exec.CommandContext(ctx, "go", args...)
	counter := &compileCounter{program: which}
	cmd.Stderr = counter
	// A workspace of the caller would change the build.
	cmd.Env = append(os.Environ(), "GOWORK=off")
	stop := reportProgress(ctx, counter)
	err = cmd.Run()
	stop()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("build the lab: %w", ctx.Err())
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("the lab is built with Go, and there is no go command: install Go 1.26, or point proxmox.endpoint at a real host: %w", err)
	case err != nil:
		return "", fmt.Errorf("build the lab: %w\n%s", err, counter.errors())
	}
	return out, nil
}

// CompilerFlags are those of cmd/mage, so that the lab shares with the magefile what both are compiled from.
func CompilerFlags() []string {
	return []string{"-tags=kustomize_disable_go_plugin_support", "-gcflags=all=-dwarf=false", "-gcflags=std="}
}

// dir returns the folder of the lab's files, which it creates.
func (o Options) dir() (string, error) {
	dir, err := filepath.Abs(cmp.Or(o.Dir, DefaultDir))
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, binFolder), 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("build the lab: %w", err)
	}
	return dir, nil
}

// reportProgress reports progress every second until stop is called.
func reportProgress(ctx context.Context, counter *compileCounter) (stop func()) {
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		began := time.Now()
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
				converge.Progressf(ctx, "%s", counter.progress(time.Since(began)))
			}
		}
	})
	return func() { close(done); running.Wait() }
}

// compileCounter counts the packages that `go build -v` names, one per line.
type compileCounter struct {
	program program

	mu   sync.Mutex
	rest []byte
	n    int
	text []string // other lines: errors
}

func (c *compileCounter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest = append(c.rest, p...)
	for {
		line, rest, found := bytes.Cut(c.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		c.rest = rest
		if text := string(line); strings.ContainsAny(text, " :#") {
			c.text = append(c.text, text)
		} else {
			c.n++
		}
	}
}

// few is how many packages are compiled again after a small change of ours.
const few = 40

func (c *compileCounter) progress(elapsed time.Duration) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	elapsed = elapsed.Round(time.Second)
	if c.n <= few {
		return "building the lab: " + elapsed.String()
	}
	const wide = 20
	part := min(float64(c.n)/float64(c.program.packages), 0.99) // then it is linked
	done := int(part * wide)
	return fmt.Sprintf("compiling %s: [%s%s] %.0f %%, %s", c.program.what, strings.Repeat("#", done), strings.Repeat(".", wide-done), 100*part, elapsed)
}

func (c *compileCounter) errors() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	const most = 20
	return strings.Join(c.text[max(0, len(c.text)-most):], "\n")
}

// Digest identifies a build of the lab.
func Digest(binary string) (string, error) {
	f, err := os.Open(binary)
	if err != nil {
		return "", fmt.Errorf("digest of the lab: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("digest of the lab: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}
