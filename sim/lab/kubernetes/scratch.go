package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/sim/lab/plane/real"
)

// scratch reads a snapshot from in, and says what a control plane that starts from it reads. The
// data are in a folder in memory, where the system has one, and are deleted at the end.
func scratch(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("scratch", flag.ContinueOnError)
	dir := flags.String("dir", labctl.DefaultDir, "the folder for logs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	klog.SetOutput(io.Discard) // the last error is what is said
	klog.LogToStderr(false)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	var s labctl.Scratch
	if err := json.NewDecoder(in).Decode(&s); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	given := real.Snapshot{File: s.Snapshot, Encryption: s.Encryption}
	if len(s.Encryption) == 0 {
		given.Encryption = nil
	}
	var err error
	if s.Services != "" {
		if given.Services, err = netip.ParsePrefix(s.Services); err != nil {
			return fmt.Errorf("the network of Services: %w", err)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	data, err := os.MkdirTemp(inMemory(), "homelab-scratch-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(data) }()
	has, err := real.Read(ctx, real.Options{Dir: data, Logs: filepath.Join(*dir, "log", "scratch"), Exe: exe}, given)
	if err != nil {
		return err
	}
	answer := labctl.ScratchContents{Kubernetes: labctl.KubernetesVersion, Objects: map[string]int{}, Unread: map[string]string{}}
	for k, n := range has.Objects {
		answer.Objects[k.String()] = n
	}
	for k, err := range has.Unread {
		answer.Unread[k.String()] = err.Error()
	}
	return json.NewEncoder(out).Encode(answer)
}

// inMemory is a folder whose files are on no disk; empty: the usual one for temporary files.
func inMemory() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err == nil && info.IsDir() {
		return shm
	}
	return ""
}
