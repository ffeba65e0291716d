package nvidia

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
)

// OperatorRuntime is NVIDIA's container runtime on a machine whose driver the GPU operator installs.
type OperatorRuntime struct {
	Installed bool     // the operator has installed it
	Found     bool     // K3s has found it there at its last start
	Host      []string // packages of a driver that the machine has of its own
}

//go:embed runtime.sh
var runtimeScript string

// ObserveOperatorRuntime reads what the GPU operator has brought to a machine. It changes nothing.
func ObserveOperatorRuntime(ctx context.Context, r remote.Runner) (OperatorRuntime, error) {
	out, err := remote.Output(ctx, r, "sh", "-c", runtimeScript)
	if err != nil {
		return OperatorRuntime{}, fmt.Errorf("look at the GPU operator's runtime: %w", err)
	}
	var s OperatorRuntime
	for _, line := range lines(string(out)) {
		status, pkg, _ := strings.Cut(line, " ")
		switch {
		case line == "installed":
			s.Installed = true
		case line == "found":
			s.Found = true
		case status == "installed":
			s.Host = append(s.Host, pkg)
		}
	}
	return s, nil
}

// Diff says what is missing until containers see GPUs. K3s looks for the runtime only at its start
// (k3s-io/k3s, pkg/agent/containerd/runtimes.go).
func (s OperatorRuntime) Diff() converge.Diff {
	switch {
	case !s.Installed:
		return converge.Diff{{Path: "runtime", Have: "missing", Want: "installed by the GPU operator", Effect: converge.Create}}
	case !s.Found:
		return converge.Diff{{Path: "runtime", Have: "not found by K3s", Want: "found", Effect: converge.Update,
			Note: "K3s looks for it at its start, so it starts again; pods keep running"}}
	}
	return nil
}
