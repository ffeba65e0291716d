package labctl

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Status is the status of a running lab.
type Status struct {
	State
	Uptime    time.Duration `json:"-"`         // to the second
	Processes []Process     `json:"processes"` // the lab itself first
	Outdated  bool          `json:"outdated"`  // it runs another build than the one that is in its folder now
}

// Process is one of the lab's programs.
type Process struct {
	PID    int    `json:"pid"`
	Name   string `json:"name"`   // "serve" is the lab itself; "kube-apiserver", …
	Memory int64  `json:"memory"` // bytes that it has for itself and its part of what it shares; 0 when not known
}

// Memory is the memory of all its programs, in bytes.
func (s Status) Memory() int64 {
	var sum int64
	for _, p := range s.Processes {
		sum += p.Memory
	}
	return sum
}

// Stat returns the status of a folder's lab. Processes are listed on Linux only.
func Stat(ctx context.Context, dir string) (Status, error) {
	dir = cmp.Or(dir, DefaultDir)
	s, err := Find(ctx, dir)
	if err != nil {
		return Status{}, err
	}
	status := Status{State: s, Uptime: time.Since(s.Started).Round(time.Second)}
	for _, pid := range append([]int{s.PID}, children(s.PID)...) {
		status.Processes = append(status.Processes, inspect(pid))
	}
	if digest, err := Digest(filepath.Join(dir, binFolder, s.Guests.program().name)); err == nil {
		status.Outdated = digest != s.Binary
	}
	return status, nil
}

// children lists the processes that pid started, from every thread of it.
func children(pid int) []int {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil
	}
	var pids []int
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has ended
		}
		for _, field := range strings.Fields(string(data)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

func inspect(pid int) Process {
	p := Process{PID: pid}
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
		args := bytes.Split(line, []byte{0})
		switch {
		case len(args) > 2 && string(args[1]) == "-name": // a VM's
			p.Name = filepath.Base(string(args[0])) + " " + string(args[2])
		case len(args) > 1:
			p.Name = string(args[1])
		}
	}
	p.Memory = proportional(pid)
	return p
}

// proportional reads Pss: shared pages count in part for each process, so the sum is the
// memory that is really used.
func proportional(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "Pss:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(text, "kB")), 10, 64)
			if err != nil {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}
