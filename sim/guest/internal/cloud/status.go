package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/netplan"
)

// Programs returns cloud-init.
func Programs() map[string]machine.Program {
	return map[string]machine.Program{"cloud-init": runCloudInit}
}

// cloudState is what cloud-init status tells.
type cloudState struct {
	mu         sync.Mutex
	status     string // not started, running, done, error, disabled
	current    string // stage
	datasource string
	detail     string
	stages     map[string]*cloudStage
	updated    time.Time
}

type cloudStage struct {
	start, finished time.Time
	errors          []string
	warnings        []string
}

// cloudStages are cloud-init's four, in order.
func cloudStages() []string { return []string{"init-local", "init", "modules-config", "modules-final"} }

func cloudOf(s *machine.System) *cloudState { return machine.StateOf[cloudState](s) }

// begin is the start of a boot.
func (st *cloudState) begin() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.status, st.stages = "running", map[string]*cloudStage{}
}

// Status is the status that "cloud-init status" tells; empty before the boot has come
// to it.
func Status(s *machine.System) string {
	st := cloudOf(s)
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.status
}

func (st *cloudState) close(now time.Time) {
	if s := st.stages[st.current]; s != nil {
		s.finished = now
	}
	st.current, st.updated = "", now
}

func (st *cloudState) finish() {
	st.close(time.Now())
	st.status = "done"
	for _, s := range st.stages {
		if len(s.errors) > 0 {
			st.status = "error"
		}
	}
}

// result is what the last stage leaves in result.json: the errors of all of them
// (status_wrapper of cloudinit/cmd/main.py, which indents it by one).
func (st *cloudState) result() string {
	errs := []string{}
	for _, name := range cloudStages() {
		if s := st.stages[name]; s != nil {
			errs = append(errs, s.errors...)
		}
	}
	out, err := json.MarshalIndent(map[string]any{"v1": map[string]any{"datasource": st.detail, "errors": errs}}, "", " ")
	if err != nil {
		return "{}\n"
	}
	return string(out) + "\n"
}

// stage begins the next one.
func (c *Run) stage(name string) {
	st := cloudOf(c.s)
	st.mu.Lock()
	defer st.mu.Unlock()
	now := time.Now()
	st.close(now)
	st.current = name
	st.stages[name] = &cloudStage{start: now}
}

// warn records what cloud-init calls a recoverable error.
func (c *Run) warn(format string, args ...any) {
	st := cloudOf(c.s)
	st.mu.Lock()
	defer st.mu.Unlock()
	stage := st.stages[st.current]
	stage.warnings = append(stage.warnings, fmt.Sprintf(format, args...))
}

// fail records an error that makes the status one.
func (c *Run) fail(format string, args ...any) {
	st := cloudOf(c.s)
	st.mu.Lock()
	defer st.mu.Unlock()
	stage := st.stages[st.current]
	stage.errors = append(stage.errors, fmt.Sprintf(format, args...))
}

// Answer is the answer of cloud-init status --format json.
type Answer struct {
	BootStatus  string              `json:"boot_status_code"`
	Datasource  string              `json:"datasource"`
	Detail      string              `json:"detail"`
	Errors      []string            `json:"errors"`
	Extended    string              `json:"extended_status"`
	Init        stageJSON           `json:"init"`
	InitLocal   stageJSON           `json:"init-local"`
	Updated     string              `json:"last_update"`
	Config      stageJSON           `json:"modules-config"`
	Final       stageJSON           `json:"modules-final"`
	Recoverable map[string][]string `json:"recoverable_errors"`
	Schemas     map[string]any      `json:"schemas,omitempty"`
	Stage       *string             `json:"stage"`
	Status      string              `json:"status"`
}

type stageJSON struct {
	Errors      []string            `json:"errors"`
	Finished    *float64            `json:"finished"`
	Recoverable map[string][]string `json:"recoverable_errors"`
	Start       *float64            `json:"start"`
}

func unixSeconds(t time.Time) *float64 {
	if t.IsZero() {
		return nil
	}
	f := float64(t.UnixMilli()) / 1000
	return &f
}

func (st *cloudState) json() (Answer, int) {
	out := Answer{BootStatus: "enabled-by-generator", Datasource: st.datasource, Detail: st.detail, Errors: []string{}, Status: st.status,
		Updated: st.updated.UTC().Format("Mon, 02 Jan 2006 15:04:05 +0000"), Recoverable: map[string][]string{}}
	if st.status == "" {
		out.Status = "not started"
	}
	if st.status == "disabled" {
		out.BootStatus = "disabled-by-generator"
	}
	for i, to := range []*stageJSON{&out.InitLocal, &out.Init, &out.Config, &out.Final} {
		*to = stageJSON{Errors: []string{}, Recoverable: map[string][]string{}}
		s := st.stages[cloudStages()[i]]
		if s == nil {
			continue
		}
		to.Start, to.Finished = unixSeconds(s.start), unixSeconds(s.finished)
		to.Errors = append(to.Errors, s.errors...)
		out.Errors = append(out.Errors, s.errors...)
		if len(s.warnings) > 0 {
			to.Recoverable["WARNING"] = slices.Clone(s.warnings)
			out.Recoverable["WARNING"] = append(out.Recoverable["WARNING"], s.warnings...)
		}
	}
	if st.current != "" {
		stage := st.current
		out.Stage = &stage
	}
	out.Extended = out.Status
	code := 0
	if len(out.Recoverable) > 0 {
		out.Extended, code = "degraded "+out.Status, 2
	}
	if len(out.Errors) > 0 {
		code = 1
		if out.Status == "error" {
			out.Extended = "error - done"
		}
	}
	if out.Status == "running" {
		code = 0
	}
	return out, code
}

// runCloudInit is cloud-init status and clean.
func runCloudInit(ctx context.Context, p *machine.Proc) int {
	opts, args := getopt.Parse(p.Args[1:], "format", "configs", "c")
	if len(args) == 0 {
		if getopt.Has(opts, "version", "v") {
			p.Printf("/usr/bin/cloud-init 26.1-0ubuntu1~24.04.1\n")
			return 0
		}
		return p.Fail("a subcommand is needed")
	}
	switch args[0] {
	case "status":
		return status(ctx, p, opts)
	case "clean":
		return clean(p, opts, args[1:])
	}
	return p.Fail("%s is not simulated", args[0])
}

func status(ctx context.Context, p *machine.Proc, opts map[string][]string) int {
	look := func() (Answer, int) {
		st := cloudOf(p.Sys)
		st.mu.Lock()
		defer st.mu.Unlock()
		return st.json()
	}
	out, code := look()
	if getopt.Has(opts, "wait", "w") {
		err := p.Poll(ctx, func() bool {
			out, code = look()
			done := out.Status != "running" && out.Status != "not started"
			if !done && getopt.Last(opts, "format") == "" {
				p.Printf(".")
			}
			return done
		})
		if err != nil {
			return p.Fail("%v", err)
		}
	}
	switch {
	case getopt.Last(opts, "format") == "json":
		data, err := json.MarshalIndent(out, "", "  ")
		if err != nil {
			return p.Fail("%v", err)
		}
		p.Printf("%s\n", data)
	case getopt.Has(opts, "wait", "w"):
		p.Printf("\nstatus: %s\n", out.Status)
	default:
		p.Printf("status: %s\n", out.Status)
	}
	if getopt.Has(opts, "long", "l") {
		p.Printf("extended_status: %s\nboot_status_code: %s\ndetail: %s\nerrors: %q\nrecoverable_errors: %q\n", out.Extended, out.BootStatus, out.Detail, out.Errors, out.Recoverable)
	}
	return code
}

// clean makes the next boot a first one, as is done before a template.
func clean(p *machine.Proc, opts map[string][]string, rest []string) int {
	if p.User.UID != 0 {
		return p.Fail("Error: must be root")
	}
	var err error
	entries, _ := p.FS.ReadDir("/var/lib/cloud")
	for _, e := range entries {
		if e.Name() != "seed" || getopt.Has(opts, "seed", "s") {
			err = errors.Join(err, p.FS.RemoveAll("/var/lib/cloud/"+e.Name()))
		}
	}
	// The status is kept below /var/lib/cloud, and what is in /run points there.
	st := cloudOf(p.Sys)
	st.mu.Lock()
	st.status, st.current, st.detail, st.stages = "", "", "", map[string]*cloudStage{}
	st.mu.Unlock()
	if getopt.Has(opts, "logs", "l") {
		for _, name := range []string{"/var/log/cloud-init.log", "/var/log/cloud-init-output.log"} {
			_ = p.FS.Remove(name)
		}
	}
	if getopt.Has(opts, "machine-id") {
		err = errors.Join(err, p.FS.WriteFile("/etc/machine-id", []byte("uninitialized\n"), 0o444))
	}
	if c := append(opts["configs"], append(opts["c"], rest...)...); slices.Contains(c, "all") || slices.Contains(c, "network") {
		_ = p.FS.Remove(netplan.File)
	}
	if err != nil {
		return p.Fail("Error: %s", disk.Strerror(err))
	}
	if getopt.Has(opts, "reboot", "r") {
		p.Sys.PowerOff(true)
	}
	return 0
}
