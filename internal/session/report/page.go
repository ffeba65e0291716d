// Package page writes one HTML document about a cluster: what is wrong, the machines and who
// holds their GPUs, the platform, a run as a timeline, what it changed, results of GPU checks
// and the hub's profiles.
//
// The document is one file without scripts. It loads nothing, and its content security policy
// forbids it to. Equal pages give equal bytes. Everything in a [Page] is plain text that
// [Page.Write] escapes; the caller removes secrets with [Page.Clean].
package report

import (
	"reflect"
	"time"
)

// Page is all that the document shows. Empty sections are left out.
type Page struct {
	Cluster string
	Command string        // what wrote the page, e.g. cluster:up
	Version string        // of homelab
	Time    time.Time     // when the state was read
	Outcome string        // how the command ended, as a sentence
	Failed  bool          // the command failed
	Every   time.Duration // how often a live page is read again; 0: it is a file

	Simulated string // what of the cluster is, as a sentence; empty: it is real

	Facts    []Fact
	Links    []Link
	Problems []Problem // the worst first
	Hosts    []Host
	Pools    []Pool
	Parts    []Part
	Run      *Run // nil: nothing ran
	Changes  []Change
	Results  []Result
	Fit      Fit
}

// Fact is a short label and its value.
type Fact struct{ Label, Value string }

// Link is an address where users reach a part of the platform.
type Link struct{ Title, URL string }

// State says how something is.
type State string

// The states, by what a reader has to do.
const (
	Good    State = "good"    // nothing
	Waiting State = "waiting" // wait: it needs something else first
	Bad     State = "bad"     // fix it
	Off     State = "off"     // nothing: it is off, or not known
)

// Problem is something that is wrong.
type Problem struct {
	Where   string // a machine, a part or a step
	What    string
	Cure    string // what to do; may be empty
	Warning bool   // it works for now
}

// Host is a Proxmox VE host, or the place of external machines.
type Host struct {
	Name     string
	State    State
	Words    string // the state in words
	About    string // e.g. 64 cores, 512GiB
	Machines []Machine
	Cards    []GPU // that are in no machine of the cluster
}

// Machine is a VM, or an external machine.
type Machine struct {
	Name    string
	State   State
	Words   string // the state in words
	Role    string // server, agent or files
	Address string
	VMID    int
	Version string // of Kubernetes
	Age     string
	GPUs    []GPU
	Use     Use
}

// GPU is a card.
type GPU struct {
	Model   string
	Address string // on the host
	Owner   string // the VM that has it, if it is another owner's
	Problem string
}

// Use says how many of a machine's GPUs, or shares of them, pods hold.
type Use struct {
	Used, Total int
	Unit        string // GPUs, shares, or e.g. mig-1g.5gb
	Holders     []Holder
	Unknown     string // why it is not known who holds them; empty: it is
}

// Holder is a pod that holds GPUs.
type Holder struct {
	Name  string // the user, or namespace/pod
	Pod   string // namespace/pod
	Count int
	Since time.Time // zero: not known
}

// Pool is a group of machines.
type Pool struct {
	Name, Role    string
	Ready, Nodes  int
	Cores, Memory string // of one machine, or from–to
	Model         string
	Used, GPUs    int
	Unit          string // as in Use
	Sharing       string
	Taints        string
}

// Part is a part of the platform.
type Part struct {
	Name, Chart, Version, Via string
	State                     State
	Words                     string
}

// Run is a run of steps.
type Run struct {
	Started, Ended time.Time
	Steps          []Step
}

// How a step of a run ended.
const (
	Changed   = "changed"
	Unchanged = "unchanged"
	Failed    = "failed"
	Skipped   = "skipped"   // not started, because a step that it needs failed
	Cancelled = "cancelled" // stopped
)

// Step is a step of a run.
type Step struct {
	Name           string // unique
	Lane, What     string // its machine, and what it does there
	End            string // how it ended
	Needs          []string
	Started, Ended time.Time // Started: when all that it needs had ended
	Error          string
}

// Change is what a step changed, or what a run would change.
type Change struct {
	Where  string
	What   string
	Fields []Field
}

// Field is one difference.
type Field struct{ Path, Before, After, Note string }

// Whole is the index of the result of a whole machine.
const Whole = -1

// Result is the result of one GPU, or of what concerns a whole machine.
type Result struct {
	Node   string
	Index  int
	Time   time.Time // of the run
	Level  string    // how much was checked
	Model  string
	Memory string
	Driver string
	UUID   string
	Passed bool
	Detail string // why it failed
	Note   string
	Checks []Check
	Trends []Trend      // of what was measured, the main one first
	Past   []PastResult // results so far with this one, the oldest first
	Worse  []string     // how it is worse than before
	Better []string     // other differences to earlier results
}

// Check is one thing that was checked.
type Check struct {
	Name   string
	State  State // Waiting: a warning; Off: it could not be checked
	Detail string
}

// Trend is a measure with its earlier values.
type Trend struct {
	Name, Words string // the value with its unit, and its day if it is not of this run
	Slower      bool
	Past        []PastResult
}

// PastResult is one result of a GPU's history.
type PastResult struct {
	Time   time.Time
	Passed bool
	Value  float64 // of a measure; 0: none
	Words  string  // the value with its unit
}

// Fit says how many servers of each of the hub's profiles fit.
type Fit struct {
	Pools []string
	Rows  []FitRow
	Notes []string
}

// FitRow is a profile.
type FitRow struct {
	Profile string
	Cells   []FitCell
	Total   int
	Limit   string
	Check   *Check // of a server of this profile; nil: none was started
}

// FitCell is how many servers fit on a pool, or why none does.
type FitCell struct {
	Count int
	Why   string
}

// Clean returns a page whose every text went through clean, which removes secrets.
func (p *Page) Clean(clean func(string) string) *Page {
	out := reflect.New(reflect.TypeFor[Page]()).Elem()
	copyClean(out, reflect.ValueOf(*p), clean)
	cleaned, _ := out.Addr().Interface().(*Page)
	return cleaned
}

// copyClean copies from into to, which is its zero value.
func copyClean(to, from reflect.Value, clean func(string) string) {
	switch from.Kind() {
	case reflect.String:
		to.SetString(clean(from.String()))
	case reflect.Struct:
		if from.Type() == reflect.TypeFor[time.Time]() {
			to.Set(from)
			return
		}
		for i := range from.NumField() {
			copyClean(to.Field(i), from.Field(i), clean)
		}
	case reflect.Slice:
		if from.IsNil() {
			return
		}
		to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			copyClean(to.Index(i), from.Index(i), clean)
		}
	case reflect.Pointer:
		if from.IsNil() {
			return
		}
		to.Set(reflect.New(from.Type().Elem()))
		copyClean(to.Elem(), from.Elem(), clean)
	default:
		to.Set(from)
	}
}
