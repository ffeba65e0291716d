package conform

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// Difference is an answer that differs from the recorded one.
type Difference struct {
	Where  string // scenario, or file
	Number int    // in it, from 0
	Area   string
	Class  string
	Asked  string
	What   []string
	Reason string // empty if it is not explained
}

// Conformance is the result of a replay.
type Conformance struct {
	Total       int // recorded exchanges
	Agree       int
	Differences []Difference
	Unused      []string // rules of differences.yaml that nothing needed

	areas map[string]int // recorded exchanges by area
}

// Replays compares answers of simulated hosts with recorded ones.
type Replays struct {
	x    *excuses
	out  Conformance
	show *regexp.Regexp // scenarios whose exchanges are written to Log
	Log  io.Writer
}

// NewReplays starts a comparison. Every exchange of scenarios that match the pattern show is
// written to log; an empty pattern matches none.
func NewReplays(show string, log io.Writer) (*Replays, error) {
	x, err := loadExcuses()
	if err != nil {
		return nil, err
	}
	r := &Replays{x: x, out: Conformance{areas: map[string]int{}}, Log: log}
	if show != "" {
		if r.show, err = regexp.Compile(show); err != nil {
			return nil, fmt.Errorf("-show: %w", err)
		}
	}
	return r, nil
}

// areaOf is the area of an exchange: the tree of the API.
func areaOf(e exchange) string {
	parts := strings.Split(e.Path+"////", "/")
	switch {
	case e.Raw != nil || e.Area == "malformed":
		return "malformed"
	case parts[1] != "nodes":
		path, _, _ := strings.Cut(parts[1], "?")
		second, _, _ := strings.Cut(parts[2], "?")
		if path == "cluster" && second != "" {
			path += "/" + second
		}
		return "/" + path
	case parts[3] == "":
		return "/nodes"
	}
	tree, _, _ := strings.Cut(parts[3], "?")
	return "/nodes/{node}/" + tree
}

func (r *Replays) note(s Scenario, n int, e, got exchange) {
	what, class := r.x.compare(e, got)
	r.out.Total++
	r.out.areas[areaOf(e)]++
	if r.show != nil && r.show.MatchString(s.String()) {
		r.print(n, e, got, what)
	}
	if what == nil {
		r.out.Agree++
		return
	}
	d := Difference{Where: s.String(), Number: n, Area: areaOf(e), Class: class, Asked: e.request(), What: what}
	if x := find(r.x.Answers, e, strings.Join(what, "\n")); x != nil {
		d.Reason = x.Why
	}
	r.out.Differences = append(r.out.Differences, d)
}

func (r *Replays) print(n int, e, got exchange, what []string) {
	mark := "="
	if what != nil {
		mark = "≠"
	}
	fmt.Fprintf(r.Log, "%s #%d at %.1f s: %s %v\n    recorded %d %s %s\n    here     %d %s %s\n", mark, n, e.At, shorten(e.request()), e.Params,
		e.Status, e.Reason, e.Body, got.Status, got.Reason, got.Body)
}

// Result returns the result.
func (r *Replays) Result() *Conformance {
	r.out.Unused = r.x.unusedRules()
	return &r.out
}

// enough is the share of answers that must agree, in percent.
const enough = 97

// Err returns an error if too much differs, or something without an explanation.
func (c *Conformance) Err() error {
	var errs []error
	for _, d := range c.Differences {
		if d.Reason == "" {
			errs = append(errs, fmt.Errorf("%s #%d %s differs and differences.yaml does not say why:\n  %s",
				d.Where, d.Number, d.Asked, strings.Join(d.What, "\n  ")))
		}
	}
	for _, rule := range c.Unused {
		errs = append(errs, fmt.Errorf("differences.yaml has a rule that nothing needs: %s", rule))
	}
	if 100*c.Agree < enough*c.Total {
		errs = append(errs, fmt.Errorf("%d of %d answers agree; at least %d %% must", c.Agree, c.Total, enough))
	}
	return errors.Join(errs...)
}

// Print writes the result for people.
func (c *Conformance) Print(w io.Writer) error {
	var b strings.Builder
	for _, d := range c.Differences {
		why := d.Reason
		if why == "" {
			why = "NOT EXPLAINED"
		}
		fmt.Fprintf(&b, "%s #%d %s (%s)\n  %s\n  why: %s\n\n", d.Where, d.Number, d.Asked, d.Class, strings.Join(d.What, "\n  "), why)
	}
	c.summary(&b)
	fmt.Fprintf(&b, "\nstrict %d of %d (%.1f %%)\n", c.Agree, c.Total, 100*float64(c.Agree)/float64(max(c.Total, 1)))
	_, err := io.WriteString(w, b.String())
	return err
}

// summary tells how many differ, by area and class.
func (c *Conformance) summary(b *strings.Builder) {
	byArea := map[string]map[string]int{}
	for _, d := range c.Differences {
		if byArea[d.Area] == nil {
			byArea[d.Area] = map[string]int{}
		}
		byArea[d.Area][d.Class]++
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "asked\tagree\t%s\t  area\t\n", strings.Join(classes, "\t"))
	for _, area := range slices.Sorted(maps.Keys(c.areas)) {
		differ, row := 0, ""
		for _, class := range classes {
			n := byArea[area][class]
			differ += n
			row += "\t"
			if n > 0 {
				row += fmt.Sprint(n)
			}
		}
		fmt.Fprintf(t, "%d\t%d%s\t  %s\t\n", c.areas[area], c.areas[area]-differ, row, area)
	}
	_ = t.Flush() // into memory
}
