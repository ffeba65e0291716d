package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/printable"
)

// view is a page as the template draws it.
type view struct {
	*Page
	At       string
	Chip     chip
	Tiles    []tile
	Places   []place
	Legend   []legend
	Holders  []holding
	Timeline *timeline
	Changed  []group
	Checks   []checkRow
	Checked  string // what the results say, as a sentence
	Refresh  string
	Servers  bool // of the hub were started
}

// chip is the verdict beside the title.
type chip struct {
	State State
	Words string
}

// tile is a number that a reader looks for first.
type tile struct {
	Label, Number, Of, Note string
	State                   State
	Share                   string // of a bar; empty: none
	Href                    string
}

// place is a host with its machines.
type place struct {
	Host
	Boxes []box
	Cells []cell // of cards that are in no machine of the cluster
}

// box is a machine.
type box struct {
	Machine
	Cells []cell
	Names []string // who holds its GPUs
	More  int      // further holders
	Share string   // of a bar of shares; empty: its GPUs are cells
	Title string
}

// cell is a GPU, or a unit of one that pods request.
type cell struct{ Class, Text, Title string }

// legend says what a colour means.
type legend struct{ Class, Text string }

// holding is a pod that holds GPUs, with its machine.
type holding struct {
	Holder
	Class, Node, Since, Holds string
}

// hues is how many holders have a colour of their own.
const hues = 8

// viewOf computes all that the template needs.
func viewOf(p *Page) *view {
	v := &view{Page: p, At: p.Time.Format("2006-01-02 15:04 MST"), Timeline: timelineOf(p.Run), Changed: foldChanges(p.Changes)}
	if p.Every > 0 {
		v.Refresh = FormatDuration(p.Every)
	}
	colour := v.colours()
	for _, h := range p.Hosts {
		at := place{Host: h}
		for _, m := range h.Machines {
			at.Boxes = append(at.Boxes, boxOf(m, colour))
			for _, hold := range m.Use.Holders {
				one := holding{Holder: hold, Class: colour[hold.Name], Node: m.Name, Holds: fmt.Sprint(hold.Count)}
				if unit := m.Use.Unit; unit != "GPUs" && hold.Count == 1 {
					one.Holds += " " + strings.TrimSuffix(unit, "s")
				} else if unit != "GPUs" {
					one.Holds += " " + unit
				}
				if !hold.Since.IsZero() {
					one.Since = console.Age(p.Time.Sub(hold.Since))
				}
				v.Holders = append(v.Holders, one)
			}
		}
		for _, g := range h.Cards {
			at.Cells = append(at.Cells, cardCell(g))
		}
		v.Places = append(v.Places, at)
	}
	v.Checks, v.Checked = checksOf(p.Results)
	v.Servers = slices.ContainsFunc(p.Fit.Rows, func(r FitRow) bool { return r.Check != nil })
	v.Chip = v.verdict()
	v.tiles()
	return v
}

// colours gives each holder a class: the largest ones a hue of their own. The legend names
// them.
func (v *view) colours() map[string]string {
	held, free, foreign, broken := map[string]int{}, false, false, false
	for _, h := range v.Hosts {
		for _, m := range h.Machines {
			for _, hold := range m.Use.Holders {
				held[hold.Name] += hold.Count
			}
			free = free || m.Use.Total > m.Use.Used
			broken = broken || slices.ContainsFunc(m.GPUs, func(g GPU) bool { return g.Problem != "" })
		}
		for _, g := range h.Cards {
			foreign, broken, free = foreign || g.Owner != "", broken || g.Problem != "", free || g.Owner == "" && g.Problem == ""
		}
	}
	names := slices.SortedFunc(maps.Keys(held), func(a, b string) int { return cmp.Or(cmp.Compare(held[b], held[a]), cmp.Compare(a, b)) })
	out := map[string]string{}
	for i, name := range names {
		if out[name] = "rest"; i < hues {
			out[name] = fmt.Sprintf("h%d", i)
			v.Legend = append(v.Legend, legend{out[name], name})
		}
	}
	if more := len(names) - hues; more > 0 {
		v.Legend = append(v.Legend, legend{"rest", fmt.Sprintf("%d others", more)})
	}
	for _, x := range []struct {
		there bool
		legend
	}{{free, legend{"free", "free"}}, {foreign, legend{"foreign", "another owner"}}, {broken, legend{"broken", "not usable"}}} {
		if x.there {
			v.Legend = append(v.Legend, x.legend)
		}
	}
	return out
}

// boxOf draws a machine. Kubernetes says how many GPUs a pod holds and not which: the cells
// are filled from the first.
func boxOf(m Machine, colour map[string]string) box {
	b := box{Machine: m}
	for _, h := range m.Use.Holders {
		if !slices.Contains(b.Names, h.Name) {
			b.Names = append(b.Names, h.Name)
		}
	}
	const most = 3
	if b.More = len(b.Names) - most; b.More > 0 {
		b.Title = strings.Join(b.Names[most:], ", ")
		b.Names = b.Names[:most]
	}
	whole := m.Use.Total == len(m.GPUs) || len(m.GPUs) == 0
	if !whole && m.Use.Total > 0 {
		b.Share = percent(float64(m.Use.Used) / float64(m.Use.Total))
	}
	for i := range max(len(m.GPUs), m.Use.Total) {
		if !whole && i >= len(m.GPUs) {
			break
		}
		c := cell{Class: "free", Text: fmt.Sprint(i), Title: "free"}
		switch n := i; {
		case whole && i < m.Use.Used:
			for _, h := range m.Use.Holders {
				if n -= h.Count; n < 0 {
					c.Class, c.Title = colour[h.Name], "held by "+h.Name
					break
				}
			}
		case !whole && m.Use.Used > 0:
			c.Class, c.Title = "rest", "shared"
		case m.Use.Total == 0:
			c.Class, c.Title = "idle", "not offered to pods"
		}
		if i < len(m.GPUs) {
			g := m.GPUs[i]
			c.Title = strings.TrimSpace(g.Model+" "+g.Address) + ": " + c.Title
			if g.Problem != "" {
				c.Class, c.Title = "broken", c.Title+", "+g.Problem
			}
		}
		b.Cells = append(b.Cells, c)
	}
	return b
}

func cardCell(g GPU) cell {
	c := cell{Class: "free", Text: "·", Title: strings.TrimSpace(g.Model+" "+g.Address) + ": free"}
	switch {
	case g.Problem != "":
		c.Class, c.Text, c.Title = "broken", "!", strings.TrimSpace(g.Model+" "+g.Address)+": "+g.Problem
	case g.Owner != "":
		c.Class, c.Text, c.Title = "foreign", "×", strings.TrimSpace(g.Model+" "+g.Address)+": "+g.Owner
	}
	return c
}

// verdict is the state of all.
func (v *view) verdict() chip {
	bad := 0
	for _, p := range v.Problems {
		if !p.Warning {
			bad++
		}
	}
	switch {
	case bad > 0:
		return chip{Bad, printable.Count(bad, "problem")}
	case v.Failed:
		return chip{Bad, "failed"}
	case len(v.Problems) > 0:
		return chip{Waiting, printable.Count(len(v.Problems), "warning")}
	}
	return chip{Good, "nothing is wrong"}
}

// tiles are the numbers on top.
func (v *view) tiles() {
	nodes, ready, used, total := 0, 0, 0, 0
	var units []string
	for _, h := range v.Hosts {
		for _, m := range h.Machines {
			nodes++
			if m.State == Good {
				ready++
			}
			used, total = used+m.Use.Used, total+m.Use.Total
			if m.Use.Total > 0 && !slices.Contains(units, m.Use.Unit) {
				units = append(units, m.Use.Unit)
			}
		}
	}
	if nodes > 0 {
		v.addTile("Machines ready", ready, nodes, "#cluster")
	}
	if total > 0 {
		v.Tiles = append(v.Tiles, tile{
			Label: strings.Join(units, " and ") + " in use", Number: fmt.Sprint(used), Of: fmt.Sprint(total), Share: percent(float64(used) / float64(total)),
			State: Off, Href: v.link("#holders", len(v.Holders) > 0),
		})
	}
	if n := len(v.Parts); n > 0 {
		good := 0
		for _, p := range v.Parts {
			if p.State == Good {
				good++
			}
		}
		v.addTile("Parts ready", good, n, "#platform")
	}
	gpus, passed := 0, 0
	for _, r := range v.Results {
		if r.Index == Whole {
			continue
		}
		if gpus++; r.Passed {
			passed++
		}
	}
	if gpus > 0 {
		v.addTile("GPUs verified", passed, gpus, "#results")
	}
	if t := v.Timeline; t != nil {
		v.Tiles = append(v.Tiles, tile{Label: "Run took", Number: t.Took, Note: printable.Count(t.Steps, "step"), State: Off, Href: "#run"})
	}
}

// addTile adds a tile for something of which all shall be good.
func (v *view) addTile(label string, good, of int, href string) {
	state := Bad
	if good == of {
		state = Good
	}
	v.Tiles = append(v.Tiles, tile{Label: label, Number: fmt.Sprint(good), Of: fmt.Sprint(of), State: state, Href: href})
}

// link is a place on the page, or the picture of the cluster if there is no such place.
func (v *view) link(href string, there bool) string {
	if there {
		return href
	}
	return "#cluster"
}

// group is a change that several machines share.
type group struct {
	Change
	Title string // all names, if Where is shortened
}

// foldChanges groups equal changes of different machines, in the order of the first.
func foldChanges(changes []Change) []group {
	var out []group
	names, at := map[int][]string{}, map[string]int{}
	for _, c := range changes {
		key := fmt.Sprintf("%q%q", c.What, c.Fields)
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, group{Change: c})
		}
		names[i] = append(names[i], c.Where)
	}
	for i := range out {
		out[i].Where, out[i].Title = shortList(names[i])
	}
	return out
}

// shortList lists names; a long list is shortened to its ends, and title has it whole.
func shortList(names []string) (short, title string) {
	const most, head = 6, 3
	if len(names) <= most {
		return strings.Join(names, ", "), ""
	}
	return fmt.Sprintf("%s … %s (%d)", strings.Join(names[:head], ", "), names[len(names)-1], len(names)), strings.Join(names, ", ")
}
