package mig

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/remote"
)

// Layout says how one GPU of a machine is divided.
type Layout struct {
	Index    int            // of nvidia-smi, which is the order of the PCI addresses
	Profiles map[string]int // e.g. 3g.20gb: 2; empty: whole
}

// String returns e.g. "2 of 3g.20gb", or "whole".
func (l Layout) String() string { return profilesText(l.Profiles) }

func profilesText(profiles map[string]int) string {
	if len(profiles) == 0 {
		return wholeCard
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(profiles)) {
		out = append(out, fmt.Sprintf("%d of %s", profiles[name], name))
	}
	return strings.Join(out, ", ")
}

const wholeCard = "whole"

// GPU is how one GPU of a machine is divided.
type GPU struct {
	Index     int
	UUID      string
	Kind      nvidia.GPU
	Capable   bool           // it can be divided
	Mode      bool           // instances can be made
	Pending   bool           // and will be, or not, once the card has been reset
	Instances map[string]int // that programs can use, by profile
}

// State is how the GPUs of a machine are divided.
type State struct {
	GPUs     []GPU
	Messages []string // by the service that divides them, since the last boot

	layout, program, unit string // files of that service
	enabled               bool
}

// Files of the service that divides GPUs at boot.
const (
	layoutFile  = "/etc/homelab/mig.layout"
	programFile = "/usr/local/sbin/homelab-mig"
	unitName    = "homelab-mig.service"
	unitFile    = "/etc/systemd/system/" + unitName
)

//go:embed look.sh
var observeScript string

//go:embed divide.sh
var divideScript string

//go:embed homelab-mig.service
var unitText string

// Observe reads how a machine's GPUs are divided. It changes nothing.
func Observe(ctx context.Context, r remote.Runner) (State, error) {
	out, err := remote.Output(ctx, r, "sh", "-c", observeScript)
	if err != nil {
		return State{}, fmt.Errorf("look at the GPUs' instances: %w", err)
	}
	s, err := parse(string(out))
	if err != nil {
		return State{}, fmt.Errorf("look at the GPUs' instances: %w", err)
	}
	return s, nil
}

func parse(out string) (State, error) {
	sections := map[string]string{}
	var name string
	for line := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(line, "=== "); ok {
			name = strings.TrimSpace(rest)
			sections[name] += ""
			continue
		}
		sections[name] += line
	}
	if _, ok := sections["end"]; !ok {
		return State{}, errors.New("the output is truncated")
	}
	s := State{
		layout: strings.TrimSpace(sections["layout"]), program: strings.TrimSpace(sections["program"]), unit: strings.TrimSpace(sections["unit"]),
		enabled: strings.TrimSpace(sections["enabled"]) == "enabled",
	}
	for line := range strings.Lines(sections["said"]) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "-- ") {
			s.Messages = append(s.Messages, line)
		}
	}
	for line := range strings.Lines(sections["gpus"]) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		g, err := parseGPU(line)
		if err != nil {
			return State{}, err
		}
		s.GPUs = append(s.GPUs, g)
	}
	return s, s.instances(sections["instances"])
}

// Columns of nvidia-smi --query-gpu, as look.sh asks for them.
const (
	colIndex = iota
	colUUID
	colMode
	colPending
	colDevice
	colName
	columns
)

func parseGPU(line string) (GPU, error) {
	col := strings.SplitN(line, ", ", columns)
	if len(col) != columns {
		return GPU{}, fmt.Errorf("nvidia-smi: %s", line)
	}
	index, err := strconv.Atoi(col[colIndex])
	if err != nil || index < 0 {
		return GPU{}, fmt.Errorf("nvidia-smi: %s", line)
	}
	id, err := nvidia.ParsePCIID(col[colDevice])
	if err != nil {
		return GPU{}, fmt.Errorf("nvidia-smi: GPU %d: %w", index, err)
	}
	g := GPU{Index: index, UUID: col[colUUID], Mode: col[colMode] == "Enabled", Pending: col[colPending] == "Enabled", Instances: map[string]int{}}
	g.Capable = g.Mode || col[colMode] == "Disabled" // or [N/A]
	g.Kind, _ = nvidia.Lookup(id)
	g.Kind.ID, g.Kind.Name = id, col[colName]
	if g.Capable && g.Kind.MIGInstances == 0 { // newer than the table
		g.Kind.MIGInstances = 1
	}
	return g, nil
}

// Lines of nvidia-smi -L: "GPU 0: NAME (UUID: …)", and for each instance that programs can use
// "  MIG 3g.20gb     Device  0: (UUID: …)".
var (
	gpuLine      = regexp.MustCompile(`^GPU (\d+): `)
	instanceLine = regexp.MustCompile(`^\s+MIG (\S+)\s+Device\s+\d+: `)
)

func (s *State) instances(text string) error {
	at := -1
	for line := range strings.Lines(text) {
		if m := gpuLine.FindStringSubmatch(line); m != nil {
			index, err := strconv.Atoi(m[1])
			if err != nil {
				return fmt.Errorf("nvidia-smi -L: %s", strings.TrimSpace(line))
			}
			at = slices.IndexFunc(s.GPUs, func(g GPU) bool { return g.Index == index })
			continue
		}
		if m := instanceLine.FindStringSubmatch(line); m != nil && at >= 0 {
			s.GPUs[at].Instances[m[1]]++
		}
	}
	return nil
}

// gpu finds a GPU by its index.
func (s State) gpu(index int) (GPU, bool) {
	for _, g := range s.GPUs {
		if g.Index == index {
			return g, true
		}
	}
	return GPU{}, false
}
