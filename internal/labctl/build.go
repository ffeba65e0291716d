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

	"github.com/cps-gpu/homelab/converge/progress"
)

// KubernetesVersion is the version of the lab's control plane. kubectl needs it in the
// program's version variables.
const KubernetesVersion = "v1.36.3"

// Build builds the lab's program in o.Dir and returns its path. With a warm build cache it
// takes a second or two; the first time it compiles Kubernetes, which takes minutes, and shows
// progress.
func Build(ctx context.Context, o Options) (string, error) {
	if runtime.GOOS == "windows" {
		return "", errors.New("the lab needs Linux or macOS, and this is Windows: run it in WSL, or point proxmox.endpoint at a real host")
	}
	from, err := o.find(ctx)
	if err != nil {
		return "", err
	}
	dir, err := o.dir()
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, binFile)
	minor := strings.Split(strings.TrimPrefix(KubernetesVersion, "v"), ".")
	const variables = "k8s.io/component-base/version."
	flags := "-s -w -X " + variables + "gitVersion=" + KubernetesVersion +
		" -X " + variables + "gitMajor=" + minor[0] + " -X " + variables + "gitMinor=" + minor[1]
	args := []string{"build", "-C", from.dir, "-v", "-buildvcs=false", "-mod=readonly", "-modfile=" + from.modfile, "-ldflags", flags, "-o", out, "./cmd/labd"}
	cmd := exec.CommandContext(ctx, "go", args...)
	counter := &compiled{}
	cmd.Stderr = counter
	// A workspace of the caller would change the build.
	cmd.Env = append(os.Environ(), "GOWORK=off")
	stop := sayBuilding(ctx, counter)
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

// dir returns the folder of the lab's files, which it creates.
func (o Options) dir() (string, error) {
	dir, err := filepath.Abs(cmp.Or(o.Dir, DefaultDir))
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, filepath.Dir(binFile)), 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("build the lab: %w", err)
	}
	return dir, nil
}

// sayBuilding reports progress every second until stop is called.
func sayBuilding(ctx context.Context, counter *compiled) (stop func()) {
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
				progress.Say(ctx, "building the lab: %s", counter.say(time.Since(began)))
			}
		}
	})
	return func() { close(done); running.Wait() }
}

// compiled counts the packages that `go build -v` names, one per line.
type compiled struct {
	mu   sync.Mutex
	rest []byte
	n    int
	last string
	text []string // other lines: errors
}

func (c *compiled) Write(p []byte) (int, error) {
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
			c.n, c.last = c.n+1, text
		}
	}
}

// few is how many packages are compiled again after a small change of ours.
const few = 40

func (c *compiled) say(elapsed time.Duration) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	elapsed = elapsed.Round(time.Second)
	if c.n <= few {
		return elapsed.String()
	}
	return fmt.Sprintf("compiling Kubernetes, once: 4 to 8 minutes on two cores, cached afterwards (%s so far, %d packages, now %s)", elapsed, c.n, c.last)
}

func (c *compiled) errors() string {
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
