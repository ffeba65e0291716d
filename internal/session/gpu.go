package session

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/proxmox"
)

// GPUList prints every card of every host.
func (s *Session) GPUList(ctx context.Context) error {
	gpus, err := s.Cluster.GPUs(ctx)
	if err != nil {
		return err
	}
	if s.JSON {
		return console.Objects(s.Console, gpus)
	}
	t := console.Table{Header: []string{"HOST", "ADDRESS", "MODEL", "GROUP", "MAPPING", "VM", ""}}
	for _, g := range gpus {
		t.Add(g.Host, g.Address, g.Model, fmt.Sprint(g.IOMMUGroup), dash(g.Mappings), dash(g.VMs), g.Problem)
	}
	s.Table(t)
	return nil
}

// GPUVerify computes on every GPU of every node, and prints what each said.
func (s *Session) GPUVerify(ctx context.Context) error {
	start := time.Now()
	graph, verification := s.Cluster.GPUVerify()
	talk := *s.Console
	talk.JSON = false // the data of this command are results, not events
	_, runErr := run(ctx, &talk, graph)
	results := verification.Results()
	if len(results) > 0 {
		if err := s.printResults(results); err != nil {
			return err
		}
	}
	// The Jobs go also when the command was interrupted.
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	if err := verification.Clean(clean); err != nil {
		s.Say("warning: the verification's jobs could not be removed: %s", err)
	}
	if runErr != nil {
		return runErr
	}
	all := 0
	for _, n := range s.Spec.GPUNodes() {
		all += n.GPUs.Count // where they are shared, one of them answers for its node
	}
	s.Say("%d of %d GPUs computed (%s).", len(results), all, since(start))
	return nil
}

const cleanTime = 3 * time.Second

func (s *Session) printResults(results []cluster.GPUResult) error {
	if s.JSON {
		return console.Objects(s.Console, results)
	}
	t := console.Table{Header: []string{"NODE", "GPU", "MODEL", "MEMORY", "DRIVER", "UUID", "RESULT"}}
	for _, r := range results {
		verdict := "passed"
		if !r.Passed {
			verdict = "FAILED: " + r.Detail
		}
		if r.Note != "" {
			verdict += ", " + r.Note
		}
		t.Add(r.Node, fmt.Sprint(r.Index), r.Name, proxmox.Size(r.Memory).String(), r.Driver, r.UUID, verdict)
	}
	s.Table(t)
	return nil
}

func dash(list []string) string {
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, ", ")
}
