package trial

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster"
)

// Record is the record of a trial.
type Record struct {
	Cluster  string    `json:"cluster"`
	Endpoint string    `json:"endpoint"` // host and port
	Proxmox  string    `json:"proxmox"`  // version, as 9.2.11
	Began    time.Time `json:"began"`
	Ended    time.Time `json:"ended"`
	Steps    []*Step   `json:"steps"` // that were begun
}

// Step is the result of one step. Requests are counted by method.
type Step struct {
	Name         string         `json:"step"`
	What         string         `json:"what"`
	Took         Seconds        `json:"seconds"`
	Requests     map[string]int `json:"requests,omitempty"`
	Said         string         `json:"said,omitempty"` // what the step itself came to
	Plan         string         `json:"plan,omitempty"` // what the plan after it said
	PlanTook     Seconds        `json:"planSeconds,omitempty"`
	PlanRequests map[string]int `json:"planRequests,omitempty"`
	Failed       string         `json:"failed,omitempty"` // why; empty: it did not
}

// Seconds is a duration that JSON has in seconds, to the millisecond.
type Seconds time.Duration

// MarshalJSON writes 1.25 for 1.25 s.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(s).Round(time.Millisecond).Seconds())
}

// String returns e.g. 6m2s, or 1.3s for short ones.
func (s Seconds) String() string {
	d := time.Duration(s)
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// setProxmox records the Proxmox VE of the trial.
func (r *Record) setProxmox(c *cluster.Cluster) {
	if pve := c.Proxmox; pve != nil {
		r.Endpoint, r.Proxmox = pve.Endpoint(), pve.Version().Version
	}
}

// Header names the cells of a step's row.
func Header() []string {
	return []string{"STEP", "TIME", "REQUESTS", "PLAN AFTER IT", "PLAN TOOK", "RESULT"}
}

// Row are a step's cells.
func (s *Step) Row() []string {
	result, took := "ok", ""
	if s.Said != "" {
		result += ": " + s.Said
	}
	if s.Failed != "" {
		result = "FAILED: " + s.Failed
	}
	if s.Plan != "" {
		took = strings.TrimSuffix(s.PlanTook.String()+", "+requests(s.PlanRequests), ", ")
	}
	return []string{s.Name, s.Took.String(), requests(s.Requests), s.Plan, took, result}
}

func requests(of map[string]int) string {
	var out []string
	for _, method := range slices.Sorted(maps.Keys(of)) {
		out = append(out, fmt.Sprintf("%d %s", of[method], method))
	}
	return strings.Join(out, " ")
}

// Markdown is the record as a page.
func (r *Record) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Trial of %s\n\nProxmox VE %s at %s, %s, %s in all.\n\n", r.Cluster, r.Proxmox, r.Endpoint,
		r.Began.UTC().Format("2006-01-02 15:04 UTC"), Seconds(r.Ended.Sub(r.Began)))
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line([]string{"step", "time", "requests", "plan after it", "plan took", "result"})
	line(slices.Repeat([]string{"---"}, len(Header())))
	for _, s := range r.Steps {
		cells := s.Row()
		for i, cell := range cells {
			cells[i] = strings.NewReplacer("|", `\|`, "\n", "<br>").Replace(cell)
		}
		line(cells)
	}
	return b.String()
}
