package session

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/history"
	"github.com/cps-gpu/homelab/internal/modelserver"
	"github.com/cps-gpu/homelab/kube"
)

// ModelList prints the models that the cluster serves.
func ModelList(s *Session, ctx context.Context) error {
	_, servers, err := modelsOf(s, ctx, "")
	if err != nil {
		return err
	}
	if s.JSON {
		return console.Objects(s.Console, servers)
	}
	printModelList(s, servers)
	return nil
}

func printModelList(s *Session, servers []modelserver.Server) {
	t := console.Table{Header: []string{"MODEL", "ENGINE", "SOURCE", "CONTEXT", "READY", "GPUS", "NODE", "ADDRESS", ""}}
	for _, m := range servers {
		tokens := "-"
		if m.Context > 0 {
			tokens = fmt.Sprint(m.Context)
		}
		remark := m.Detail
		if m.State != modelserver.Ready {
			remark = strings.TrimSuffix(string(m.State)+": "+m.Detail, ": ")
		}
		t.Add(m.Name, cmp.Or(m.Engine, "-"), cmp.Or(m.Source, "-"), tokens, fmt.Sprintf("%d/%d", m.Ready, m.Wanted), fmt.Sprint(m.GPUs), dash(m.Nodes), m.Address, remark)
	}
	s.Table(t)
}

// modelsOf are the models of the cluster, or the one of a name.
func modelsOf(s *Session, ctx context.Context, name string) (*kube.Client, []modelserver.Server, error) {
	k, err := s.Cluster.Kube(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, err := modelserver.List(ctx, k)
	if err != nil {
		return nil, nil, err
	}
	if len(all) == 0 {
		return nil, nil, exitErrorf(invalid, "%s serves no models", s.Spec.Name)
	}
	if name == "" {
		return k, all, nil
	}
	var names []string
	for _, m := range all {
		if m.Name == name {
			return k, []modelserver.Server{m}, nil
		}
		names = append(names, m.Name)
	}
	return nil, nil, exitErrorf(invalid, "-model=%s: the cluster serves no such model; it serves %s", name, strings.Join(names, ", "))
}

// mostDays is how far back model:use looks at most.
const mostDays = 366

// ModelUse prints what each key of the gateway used of each model.
func ModelUse(s *Session, ctx context.Context, f ModelUseFlags) error {
	days := cmp.Or(f.Days, 30)
	if days < 1 || days > mostDays {
		return exitErrorf(invalid, "-days=%d: from 1 to %d", f.Days, mostDays)
	}
	k, err := s.Cluster.Kube(ctx)
	if err != nil {
		return err
	}
	gateway, err := modelserver.FindGateway(ctx, k)
	if err != nil {
		return err
	}
	if gateway == nil {
		return exitErrorf(invalid, "%s has no gateway of models, so it has no keys: modelGateway adds one (docs/models.md)", s.Spec.Name)
	}
	to := time.Now()
	use, err := gateway.Use(ctx, to.AddDate(0, 0, 1-days), to)
	if err != nil {
		return err
	}
	if s.JSON {
		return console.Objects(s.Console, use)
	}
	if len(use) == 0 {
		s.Printf("No key was used since %s.", to.UTC().AddDate(0, 0, 1-days).Format(time.DateOnly))
		return nil
	}
	printModelUse(s, use)
	return nil
}

func printModelUse(s *Session, use []modelserver.Use) {
	t := console.Table{Header: []string{"KEY", "MODEL", "REQUESTS", "TOKENS IN", "TOKENS OUT"}}
	for _, u := range use {
		t.Add(u.Key, u.Model, fmt.Sprint(u.Requests), fmt.Sprint(u.Input), fmt.Sprint(u.Output))
	}
	s.Table(t)
}

// ModelHistory is the file with the results of model:verify.
func (s *Session) ModelHistory() string { return filepath.Join(s.Cluster.Dir, history.ModelFile) }

// modelResult is a line of model:verify -json. Keys are added, and never change their meaning.
type modelResult struct {
	Model      string   `json:"model"`
	Engine     string   `json:"engine"`
	Source     string   `json:"source"`
	Nodes      []string `json:"nodes,omitempty"`
	Passed     bool     `json:"passed"`
	Lab        bool     `json:"lab,omitempty"`    // the engine is simulated, and computed nothing
	Asleep     string   `json:"asleep,omitempty"` // until when it was not asked
	Error      string   `json:"error,omitempty"`
	FirstToken int64    `json:"firstTokenMs,omitempty"`
	Tokens     int      `json:"tokens,omitempty"`
	Rate       float64  `json:"tokensPerSecond,omitempty"`
	Answer     string   `json:"answer,omitempty"`
	Remarks    []string `json:"remarks,omitempty"` // how it differs from earlier runs
}

// ModelVerify asks each model, or one, a question, and compares how fast it answers with earlier runs.
func ModelVerify(s *Session, ctx context.Context, f ModelVerifyFlags) error {
	k, servers, err := modelsOf(s, ctx, f.Model)
	if err != nil {
		return err
	}
	gateway, err := modelserver.FindGateway(ctx, k)
	if err != nil {
		return err
	}
	var results []modelResult
	failed, asleep := 0, 0
	for _, m := range servers {
		if m.State == modelserver.Asleep && f.Model == "" { // who names it, wants an answer
			asleep++
			results = append(results, modelResult{Model: m.Name, Engine: m.Engine, Source: m.Source, Lab: s.Spec.IsLab(), Asleep: m.Detail})
			continue
		}
		if !s.JSON {
			s.Printf("asking %s", m.Name)
		}
		r := modelResult{Model: m.Name, Engine: m.Engine, Source: m.Source, Nodes: m.Nodes, Lab: s.Spec.IsLab()}
		a, err := m.Verify(ctx, k, gateway)
		if ctx.Err() != nil {
			return err
		}
		if r.Passed = err == nil; err != nil {
			failed++
			r.Error = s.Redact.Redact(err.Error())
		} else {
			r.FirstToken, r.Tokens, r.Rate, r.Answer = a.FirstToken.Milliseconds(), a.Tokens, a.Rate, firstWords(a.Text)
		}
		results = append(results, r)
	}
	if err := rememberModels(s.ModelHistory(), s.Spec.IsLab(), results); err != nil {
		s.Printf("warning: these results cannot be compared with later ones: %s", err)
	}
	if err := printModels(s, results); err != nil {
		return err
	}
	if failed > 0 {
		return exitErrorf(1, "%d of %d models do not answer", failed, len(results)-asleep)
	}
	text := fmt.Sprintf("%d of %d models answer", len(results)-asleep, len(results)-asleep)
	if asleep > 0 {
		text += fmt.Sprintf(", and %d sleep", asleep)
	}
	s.Printf("%s.", text)
	return nil
}

// firstWords are an answer's, in one line.
func firstWords(text string) string {
	const most = 8
	words := strings.Fields(text)
	if len(words) > most {
		words = append(words[:most], "…")
	}
	return strings.Join(words, " ")
}

// rememberModels appends results to the history, and notes how each differs from earlier ones of the same
// model from the same source in the same engine, also if it cannot be written.
func rememberModels(file string, lab bool, results []modelResult) error {
	past, _, err := history.Read(file, lab)
	now := time.Now()
	var records []history.Record
	for i := range results {
		x := &results[i]
		if x.Asleep != "" {
			continue
		}
		r := history.Record{Time: now, Node: x.Model, Index: history.Whole, Model: x.Source, Driver: x.Engine, Passed: x.Passed, Lab: lab, Detail: x.Error}
		if x.Rate > 0 {
			r.Measures = append(r.Measures, history.Measure{Name: "answer", Value: x.Rate, Unit: "tokens/s"})
		}
		if x.FirstToken > 0 {
			r.Measures = append(r.Measures, history.Measure{Name: "first token", Value: float64(x.FirstToken), Unit: "ms", Less: true})
		}
		alike := slices.DeleteFunc(slices.Clone(past), func(p history.Record) bool { return p.Model != r.Model || p.Driver != r.Driver })
		differs := history.Compare(alike, r)
		x.Remarks = slices.Concat(differs.Regressions(), differs.Other)
		records = append(records, r)
	}
	if err != nil {
		return err
	}
	return history.Add(file, records...)
}

func printModels(s *Session, results []modelResult) error {
	if s.JSON {
		return console.Objects(s.Console, results)
	}
	t := console.Table{Header: []string{"MODEL", "ENGINE", "NODE", "FIRST TOKEN", "TOKENS/S", "ANSWER", "RESULT"}}
	for _, r := range results {
		first, rate := "-", "-"
		if r.Passed {
			first = fmt.Sprintf("%d ms", r.FirstToken)
		}
		if r.Rate > 0 {
			rate = fmt.Sprintf("%.0f", r.Rate)
		}
		words := []string{"passed"}
		switch {
		case r.Asleep != "":
			words[0] = "asleep " + r.Asleep
		case !r.Passed:
			words[0] = "FAILED: " + r.Error
		}
		t.Add(r.Model, cmp.Or(r.Engine, "-"), dash(r.Nodes), first, rate, r.Answer, strings.Join(append(words, r.Remarks...), "; "))
	}
	s.Table(t)
	return nil
}
