package conform

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// differencesYAML lists what a replay does not compare, and which answers may differ, with
// reasons.
//
//go:embed differences.yaml
var differencesYAML []byte

// excuse is one rule of differences.yaml.
type excuse struct {
	Asked    string `yaml:"asked"`    // requests, a pattern; empty for all
	Scenario string `yaml:"scenario"` // of these scenarios; empty for all
	Match    string `yaml:"match"`    // what of the answer, a pattern: a key's path, a text, a line, a difference
	With     string `yaml:"with"`     // what stands in a text's place
	Why      string `yaml:"why"`
	Rare     bool   `yaml:"rare"` // it may be that none of our own recordings needs it

	asked, scenario, match *regexp.Regexp
	used                   bool
}

// excuses are all rules, by kind.
type excuses struct {
	Kinds   []*excuse `yaml:"kinds"`   // of these values only the kind is compared
	Sets    []*excuse `yaml:"sets"`    // these texts are lists in no order
	Lists   []*excuse `yaml:"lists"`   // these lists have no order
	Texts   []*excuse `yaml:"texts"`   // these pieces of texts are replaced
	Lines   []*excuse `yaml:"lines"`   // these lines of logs are left out
	Answers []*excuse `yaml:"answers"` // these answers differ and will; they count as different
}

func (x *excuses) groups() [][]*excuse {
	return [][]*excuse{x.Kinds, x.Sets, x.Lists, x.Texts, x.Lines, x.Answers}
}

func loadExcuses() (*excuses, error) {
	x := &excuses{}
	if err := yaml.UnmarshalWithOptions(differencesYAML, x, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("differences.yaml: %w", err)
	}
	for _, group := range x.groups() {
		for _, r := range group {
			if r.Why == "" {
				return nil, fmt.Errorf("differences.yaml: %q has no reason", r.Asked+r.Match)
			}
			if err := r.compile(); err != nil {
				return nil, fmt.Errorf("differences.yaml: %w", err)
			}
		}
	}
	return x, nil
}

func (r *excuse) compile() (err error) {
	if r.asked, err = regexp.Compile(r.Asked); err != nil {
		return err
	}
	if r.match, err = regexp.Compile(r.Match); err != nil {
		return err
	}
	scenario := ""
	if r.Scenario != "" {
		scenario = "^(" + r.Scenario + ")$"
	}
	r.scenario, err = regexp.Compile(scenario)
	return err
}

// covers reports whether a rule applies to an exchange.
func (r *excuse) covers(e exchange) bool {
	return r.asked.MatchString(e.request()) && r.scenario.MatchString(e.Scenario)
}

// find is the first rule of a group about something of an exchange.
func find(group []*excuse, e exchange, what string) *excuse {
	i := slices.IndexFunc(group, func(r *excuse) bool { return r.covers(e) && r.match.MatchString(what) })
	if i < 0 {
		return nil
	}
	group[i].used = true
	return group[i]
}

// plain is a text without what differs from run to run.
func (x *excuses) plain(e exchange, s string) string {
	for _, r := range x.Texts {
		if r.covers(e) && r.match.MatchString(s) {
			r.used = true
			s = r.match.ReplaceAllString(s, r.With)
		}
	}
	return s
}

// unusedRules are rules that nothing needed.
func (x *excuses) unusedRules() (out []string) {
	for _, group := range x.groups() {
		for _, r := range group {
			if !r.used && !r.Rare {
				out = append(out, strings.TrimSpace(r.Scenario+" "+r.Asked+" "+r.Match))
			}
		}
	}
	return out
}
