package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// silence is the longest time in which nobody could write while one server of three was cut
// off: kube-vip's lease and election (25 s), and a server that restarts for its upgrade at
// that moment, without which two of three are down.
const silence = time.Minute

// counter writes a ConfigMap after the other through the API's address, each over a
// connection of its own, and notes which writes the API has confirmed.
type counter struct {
	client *kube.Client
	stop   chan struct{}
	ended  sync.WaitGroup

	mu        sync.Mutex
	confirmed []string
	last      time.Time
	longest   time.Duration // without a confirmed write
}

func (w *world) counts(t *testing.T) *counter {
	c := &counter{client: w.api(t), stop: make(chan struct{}), last: time.Now()}
	c.ended.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-c.stop:
				return
			case <-time.After(2 * time.Second):
				c.write(t.Context(), fmt.Sprintf("count-%d", i))
			}
		}
	})
	return c
}

func (c *counter) write(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := c.client.Create(ctx, &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}})
	_ = c.client.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.longest = max(c.longest, time.Since(c.last))
	if err == nil {
		c.confirmed, c.last = append(c.confirmed, name), time.Now()
	}
}

// end stops the writer, and checks that all that was confirmed is there.
func (c *counter) end(t *testing.T) (writes int, longest time.Duration) {
	t.Helper()
	close(c.stop)
	c.ended.Wait()
	all, err := c.client.List(t.Context(), "v1", "ConfigMap", "default", "")
	require.NoError(t, err)
	there := map[string]bool{}
	for _, o := range all {
		there[o.GetName()] = true
	}
	for _, name := range c.confirmed {
		assert.True(t, there[name], "%s was confirmed, and is lost", name)
	}
	return len(c.confirmed), c.longest
}

// stamp is a time in a snapshot's name.
var stamp = regexp.MustCompile(`-\d{9,}`)

// momentOf is when a step says something for the first time; empty for what only says that it
// waits for others.
func momentOf(e converge.Event) string {
	if !strings.HasPrefix(e.Step, "k3s/") || e.Message == "" && e.Kind == converge.Checking ||
		strings.HasPrefix(e.Message, "waiting until the servers") || strings.HasPrefix(e.Message, "waiting for another node") {
		return ""
	}
	text := e.Message
	if text == "" {
		text = fmt.Sprint(e.Kind)
	}
	text, _, _ = strings.Cut(stamp.ReplaceAllString(text, "-…"), "\n")
	text, _, _ = strings.Cut(text, ";")
	return strings.TrimPrefix(e.Step, "k3s/") + ": " + text
}

// upgrading upgrades three servers and two agents, and calls at when the run gets to each
// moment.
func (w *world) upgrading(t *testing.T, to *spec.Spec, at func(moment string)) error {
	c := w.cluster(t, to)
	defer c.Close()
	listen := w.listen(t)
	_, err := c.Up().Run(t.Context(), func(e converge.Event) {
		listen(e)
		if m := momentOf(e); m != "" {
			at(m)
		}
	})
	return err
}

// row is the result of cutting off a server at a moment.
type row struct {
	first   string // what the run said that was under way
	writes  int
	longest time.Duration
}

func (r row) String() string { return fmt.Sprintf("%s, %.0f s", r.first, r.longest.Seconds()) }

// TestUpgradeWithAServerCutOff cuts the power of each server at each moment of an upgrade of
// three servers and two agents. The API stays reachable through its address but for the time
// of a failover, the upgrade is done when it is repeated, and nothing that was written is lost.
func TestUpgradeWithAServerCutOff(t *testing.T) {
	text := threeAndTwo(t)
	before, after := parse(t, text), upgraded(t, text)
	var moments []string
	inWorld(t, pvesim.EightA100(), func(t *testing.T, w *world) {
		w.up(t, before)
		time.Sleep(time.Minute)
		count := w.counts(t)
		require.NoError(t, w.upgrading(t, after, func(m string) {
			if !slices.Contains(moments, m) {
				moments = append(moments, m)
			}
		}))
		writes, longest := count.end(t)
		t.Logf("%d moments; undisturbed, %d writes and at most %s between two", len(moments), writes, longest)
		assert.LessOrEqual(t, longest, silence)
	})
	require.Greater(t, len(moments), 20)
	servers := []string{"cp1", "cp2", "cp3"}
	rows := &cuts{cells: map[string]row{}}
	mine := share.Start(t, "servers cut off during an upgrade")
	t.Run("cut", func(t *testing.T) {
		for _, m := range moments {
			for _, server := range servers {
				if !mine.Next() {
					continue
				}
				t.Run(server+" at "+m, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { rows.set(m, server, cutOff(t, before, after, m, server)) })
				})
			}
		}
	})
	t.Log("\n" + rows.of(moments, servers))
	t.Log("\n" + rows.sums(moments, servers))
	rows.page(t, moments, servers)
	if len(rows.cells) == len(moments)*len(servers) { // all shares
		docBlock(t, "testdata/upgrade.md", "campaign sums", "```\n"+rows.sums(moments, servers)+"```\n")
	}
}

// stepOf is the kind of a moment: a server or an agent, and what it does then.
func stepOf(moment string) string {
	node, does, _ := strings.Cut(moment, ": ")
	who := "agent"
	if strings.HasPrefix(node, "cp") {
		who = "server"
	}
	switch words := strings.Fields(does); words[0] {
	case "acting":
		does = "begins"
	case "changed":
		does = "is done"
	case "the":
		does = "the snapshot is saved"
	case "waiting":
		does, _, _ = strings.Cut(strings.ReplaceAll(does, node, "it"), ":")
	default:
		does = strings.Join(words[:1], " ")
	}
	return who + ": " + does
}

// sums are the cases by step and outcome.
func (x *cuts) sums(moments, servers []string) string {
	var b bytes.Buffer
	out := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(out, "CUT OFF WHEN\tCASES\tSTOPPED\tWENT ON\tLONGEST WITHOUT A WRITE")
	type sum struct {
		cases, stopped int
		longest        time.Duration
	}
	all, steps := map[string]sum{}, []string{}
	add := func(step string, r row) {
		s, seen := all[step]
		if !seen {
			steps = append(steps, step)
		}
		s.cases++
		if r.first == "stopped" {
			s.stopped++
		}
		s.longest = max(s.longest, r.longest)
		all[step] = s
	}
	for _, m := range moments {
		for _, server := range servers {
			if r, ok := x.cells[m+server]; ok {
				add(stepOf(m), r)
			}
		}
	}
	for _, m := range moments {
		for _, server := range servers {
			if r, ok := x.cells[m+server]; ok {
				add("all", r)
			}
		}
	}
	for _, step := range steps {
		s := all[step]
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%.0f s\n", step, s.cases, s.stopped, s.cases-s.stopped, s.longest.Seconds())
	}
	_ = out.Flush()
	return b.String()
}

// cuts has a row for each moment, with a cell for each server.
type cuts struct {
	mu    sync.Mutex
	cells map[string]row
}

func (x *cuts) set(moment, server string, r row) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cells[moment+server] = r
}

func (x *cuts) of(moments, servers []string) string {
	var b bytes.Buffer
	out := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintf(out, "CUT OFF WHEN\t%s\n", strings.Join(servers, "\t"))
	for _, m := range moments {
		cells, some := []string{m}, false
		for _, s := range servers {
			cell := "-" // in another share
			if r, ok := x.cells[m+s]; ok {
				cell, some = r.String(), true
			}
			cells = append(cells, cell)
		}
		if some {
			fmt.Fprintln(out, strings.Join(cells, "\t"))
		}
	}
	_ = out.Flush()
	return b.String()
}

// page compares the lines of testdata/upgrade.md with the moments that there are, or writes them
// with -update, where every case has run.
func (x *cuts) page(t *testing.T, moments, servers []string) {
	t.Helper()
	const file, begin = "testdata/upgrade.md", "<!-- campaign -->\n\n```\n"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok)
	is, after, ok := strings.Cut(rest, "```\n")
	require.True(t, ok)
	if *update {
		var some []string
		for _, m := range moments {
			node, does, _ := strings.Cut(m, ": ")
			if slices.Contains([]string{"cp1", "cp2", "wk-gpu1"}, node) && slices.Contains([]string{"saving", "draining", "installing", "restarting"}, strings.Fields(does)[0]) {
				some = append(some, m)
			}
		}
		for _, m := range some {
			for _, s := range servers {
				require.Contains(t, x.cells, m+s, "all cases must run: HOMELAB_SHARE=all")
			}
		}
		require.NoError(t, os.WriteFile(file, []byte(before+begin+x.of(some, servers)+"```\n"+after), 0o600))
		return
	}
	lines := strings.Split(strings.TrimSpace(is), "\n")
	require.Greater(t, len(lines), 5)
	for _, line := range lines[1:] {
		m, _, _ := strings.Cut(line, "  ")
		assert.Contains(t, moments, m, "testdata/upgrade.md: HOMELAB_SHARE=all go test ./cluster -run TestUpgradeWithAServerCutOff -update")
	}
}

// cutOff upgrades a new world, and cuts off a server at a moment.
func cutOff(t *testing.T, before, after *spec.Spec, moment, server string) row {
	w := newWorld(t, pvesim.EightA100())
	w.up(t, before)
	time.Sleep(time.Minute)
	pve := w.cluster(t, after).Proxmox
	vm, err := pve.VMs.Get(t.Context(), "homelab-"+after.Name, server)
	require.NoError(t, err)
	count := w.counts(t)
	var once sync.Once
	var cut sync.WaitGroup
	err = w.upgrading(t, after, func(m string) {
		if m == moment {
			once.Do(func() { cut.Go(func() { assert.NoError(t, pve.VMs.Stop(t.Context(), vm)) }) })
		}
	})
	cut.Wait()
	out := row{first: "went on"}
	if err != nil {
		out.first = "stopped"
	}
	time.Sleep(time.Minute)
	require.NoError(t, w.tries(t, after), "repeated")
	time.Sleep(time.Minute)
	out.writes, out.longest = count.end(t)
	assert.LessOrEqual(t, out.longest, silence, "nobody could write for that long")
	for name, n := range w.nodes(t) {
		assert.True(t, n.Ready && !n.Cordoned && n.Version == newer, "%s: %s %s", name, n.Version, n.Reason)
	}
	require.Len(t, w.kube.Clusters(), 1)
	assert.Equal(t, []string{"cp1", "cp2", "cp3"}, w.guests()[server].EtcdMembers())
	assert.Len(t, w.snapshotsOf(t, "cp1"), 1, "one snapshot, from before the first server")
	assert.Empty(t, w.plan(t, after))
	return out
}
