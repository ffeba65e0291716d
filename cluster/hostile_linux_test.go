package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/doctor"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/internal/labmodel"
	"github.com/cps-gpu/homelab/internal/labneeds"
	"github.com/cps-gpu/homelab/internal/placement"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/internal/share"
	"github.com/cps-gpu/homelab/kube/helm"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/preflight"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// Limits of what a file may cost that was accepted.
const (
	mostCPU    = 2 * time.Second
	mostMemory = 300 << 20
)

// gauge measures what a piece of work costs, whatever else the machine does: time of this
// process on CPUs, and the most memory that was in use at once.
type gauge struct {
	base, peak atomic.Uint64
	cpu        time.Duration
}

// newGauge looks at the memory until the test ends. It is called outside of a bubble.
func newGauge(t *testing.T) *gauge {
	g, done := &gauge{}, make(chan struct{})
	go func() {
		ticks := time.NewTicker(2 * time.Millisecond)
		defer ticks.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticks.C:
				g.look()
			}
		}
	}()
	t.Cleanup(func() { close(done) })
	return g
}

func (g *gauge) look() {
	for now := inUse(); ; {
		peak := g.peak.Load()
		if now <= peak || g.peak.CompareAndSwap(peak, now) {
			return
		}
	}
}

func inUse() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func (g *gauge) start() {
	runtime.GC()
	g.base.Store(inUse())
	g.peak.Store(inUse())
	g.cpu = onCPU()
}

func (g *gauge) stop() (cpu time.Duration, memory uint64) {
	g.look()
	return onCPU() - g.cpu, g.peak.Load() - g.base.Load()
}

func onCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// numbers returns makers of values for a key, one for each way to write a number in it.
func numbers(s object) (out []func(n int64) any) {
	for _, c := range choices(s) {
		switch c["type"] {
		case "integer", "number":
			out = append(out, func(n int64) any { return n })
		case "string":
			said, _ := json.Marshal(c)
			for unit, mark := range map[string]string{"GiB": "iB", "h": "(h|m", "s": "[0-9]+("} {
				if strings.Contains(string(said), mark) {
					out = append(out, func(n int64) any { return fmt.Sprint(n) + unit })
				}
			}
		case "array":
			for _, item := range numbers(c["items"].(object)) {
				out = append(out, func(n int64) any { return []any{item(n)} })
			}
		case "object":
			if more, ok := c["additionalProperties"].(object); ok {
				for _, value := range numbers(more) {
					out = append(out, func(n int64) any { return object{"x1": value(n)} })
				}
			}
		}
	}
	return out
}

// largest is the greatest number that a file takes at a place, or close to it; 0 if it takes none.
func largest(takes func(int64) bool) int64 {
	low, high := int64(0), int64(1)
	for ; high < math.MaxInt64/2; high *= 2 {
		if takes(high) {
			low = high
		} else if low > 0 || high > 1<<12 {
			break
		}
	}
	for low > 0 && high-low > max(1, low>>8) {
		if mid := low + (high-low)/2; takes(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// TestNumbersThroughThePlan: what reads a file judges its numbers; a number that it takes sizes
// nothing that a machine cannot hold, in all that is made of the file and in its plan.
func TestNumbersThroughThePlan(t *testing.T) {
	bases := basesOf(t)
	login, err := ssh.LoadSigner("id")
	require.NoError(t, err)
	g, cases := newGauge(t), share.Start(t, "numbers through the plan")
	taken, slowest, largestPeak := 0, time.Duration(0), uint64(0)
	try := func(key leaf, number func(n int64) any, n int64) {
		for _, at := range placesOf(bases, key.path) {
			tree := func(n int64) any { return with(at.base.tree, at.path, number(n)) }
			if n == greatest {
				n = largest(func(n int64) bool { _, err := at.base.parse(tree(n)); return err == nil })
			}
			s, err := at.base.parse(tree(n))
			if err != nil {
				continue
			}
			taken++
			what := fmt.Sprintf("%s: %s: %v", at.base.name, key.path, number(n))
			cpu, memory := g.of(t, s, login)
			slowest, largestPeak = max(slowest, cpu), max(largestPeak, memory)
			assert.Less(t, cpu, mostCPU, what)
			assert.Less(t, memory, uint64(mostMemory), what)
			t.Logf("%8s %4d MiB  %s", cpu.Round(time.Millisecond), memory>>20, what)
			return
		}
	}
	for _, n := range []int64{-1, 0, 1 << 31, math.MaxInt64, greatest} {
		for _, key := range leavesOf(t) {
			for _, number := range numbers(key.schema) {
				if cases.Next() {
					try(key, number, n)
				}
			}
		}
	}
	t.Logf("%d files, at most %s on a CPU and %d MiB", taken, slowest, largestPeak>>20)
}

// TestManyNodesArePlanned: what a node costs does not grow with their number, and a thousand are
// planned within the limits.
func TestManyNodesArePlanned(t *testing.T) {
	basesOf(t)
	login, err := ssh.LoadSigner("id")
	require.NoError(t, err)
	g, few := newGauge(t), time.Duration(0)
	for _, count := range []int{100, 1000} {
		g.start()
		s, err := Parse("cluster.yaml", fmt.Appendf(nil, "name: many\nproxmox: {endpoint: lab}\nnetwork: {prefix: 10.0.0.0/16, gateway: 10.0.0.1}\n"+
			"k3s: {vip: 10.0.0.2, podCIDR: 10.64.0.0/10}\npools:\n  cp: {role: server, count: 3, addresses: [10.0.1.1-10.0.1.3]}\n  wk: {count: %d, addresses: [10.0.2.1-10.0.99.255]}\n", count))
		require.NoError(t, err)
		onHosts(t, s, login, nil, func(t *testing.T, b Backend) { require.Empty(t, planned(t, s, b)) })
		cpu, memory := g.stop()
		t.Logf("%d nodes: %s on a CPU, %d MiB", count, cpu.Round(time.Millisecond), memory>>20)
		assert.Less(t, memory, uint64(mostMemory))
		if few > 0 {
			assert.Less(t, cpu, 30*few, "ten times as many")
		}
		few = cpu
	}
}

// greatest stands for the largest number that a key takes.
const greatest = math.MinInt64

// keyPlace is a key in a file.
type keyPlace struct {
	base *base
	path []string
}

// placesOf are places for a key: in files that have it first.
func placesOf(bases []*base, key string) (out []keyPlace) {
	for _, there := range []bool{true, false} {
		for _, b := range bases {
			for _, path := range places(b.tree, key) {
				if at(b.tree, path) != nil == there && !slices.ContainsFunc(out, func(p keyPlace) bool { return p.base == b }) {
					out = append(out, keyPlace{b, path})
				}
			}
		}
	}
	return out
}

// of measures all that is made of a file, and its plan on hosts that fit it.
func (g *gauge) of(t *testing.T, s *spec.Spec, login ssh.Signer) (cpu time.Duration, memory uint64) {
	onHosts(t, s, login, nil, func(t *testing.T, b Backend) {
		g.start()
		planned(t, s, b)
		effectsOf(t, s, b.Proxmox, login)
		if s.HasProxmox() {
			_ = hostprep.RoleScript(s, proxmox.Version{Version: "9.0"}, "homelab@pve!x")
		}
		cpu, memory = g.stop()
	})
	return cpu, memory
}

// onHosts binds a file to simulated hosts: a model, or what fits it. Nothing else is reached.
func onHosts(t *testing.T, s *spec.Spec, login ssh.Signer, model *pvesim.Model, do func(*testing.T, Backend)) {
	synctest.Test(t, func(t *testing.T) {
		nowhere := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route to host") }
		b := Backend{Dir: t.TempDir(), Signers: []ssh.Signer{login}, Dial: nowhere, GitDial: nowhere, Charts: helm.Source{Dial: nowhere, Cache: t.TempDir()}}
		if s.HasProxmox() {
			if model == nil {
				_, fits := labmodel.ModelFor(labneeds.NeedsOf(s))
				model = &fits
			}
			sim := pvesim.New(*model, pvesim.Options{})
			defer sim.Close()
			id, token := sim.Token()
			pve, err := proxmox.Dial(t.Context(), proxmox.Config{
				Endpoint: "pve1", TokenID: id, TokenSecret: secret.New(token), HTTPClient: &http.Client{Transport: sim.Client().Transport},
			})
			require.NoError(t, err)
			b.Proxmox, b.Dial = pve, sim.Network().Dial
		}
		do(t, b)
	})
}

// planned plans a file, and returns what the plan says. It leaves the platform out: nothing is
// planned while no chart can be fetched.
func planned(t *testing.T, asked *spec.Spec, b Backend) (said []string) {
	bare := *asked
	bare.Platform = spec.Platform{}
	s, err := placement.Place(t.Context(), &bare, b.Proxmox)
	if err != nil {
		return []string{err.Error()}
	}
	c, err := New(s, b)
	if err != nil {
		return []string{err.Error()}
	}
	defer c.Close()
	plan, err := c.Up().Plan(t.Context())
	if err != nil {
		return []string{err.Error()}
	}
	if err := plan.Err(); err != nil {
		said = append(said, err.Error())
	}
	_, notes := c.HostWarnings()
	return append(said, notes...)
}

// words are a tame word, and what a shell would take for more than one.
func words() []string {
	return []string{"tame", "p;touch X", "$(touch X)", "`touch X`", "a'b", `a"b c\d`, "-rf", "a>b&c|d", "*", "~root #ä", "${IFS}x", "a b"}
}

// TestWordsThroughThePlan: a word that a file takes stays one word in every command of the plan,
// the host check, the doctor's findings and the lists of passwords, on hosts that fit and on hosts
// that have nothing of what the file wants.
func TestWordsThroughThePlan(t *testing.T) {
	bases := basesOf(t)
	login, err := ssh.LoadSigner("id")
	require.NoError(t, err)
	cases := share.Start(t, "words through the plan")
	taken, seen, carry, keys := 0, 0, 0, map[string]bool{}
	for _, key := range leavesOf(t) {
		for _, make := range texted(key.schema) {
			if !cases.Next() {
				continue
			}
			for _, at := range placesOf(bases, key.path) {
				var tame []string
				for _, word := range words() {
					s, err := at.base.parse(with(at.base.tree, at.path, make(word)))
					if err != nil {
						if word == "tame" {
							break
						}
						continue
					}
					taken++
					said, has := commandsOf(t, s, login, word)
					carry += has
					seen += len(said)
					if word == "tame" {
						tame = said
						continue
					}
					keys[key.path] = true
					for _, c := range said {
						assert.True(t, slices.Contains(tame, c) || !strings.Contains(c, word), "%s: %s: %q: another command: %s", at.base.name, key.path, word, c)
					}
				}
				if tame != nil {
					break
				}
			}
		}
	}
	t.Logf("%d files, %d commands, %d with the word; these keys take some: %v", taken, seen, carry, slices.Sorted(maps.Keys(keys)))
}

// texted returns makers of values for a key, one for each way to write a word in it.
func texted(s object) (out []func(word string) any) {
	for _, c := range choices(s) {
		switch c["type"] {
		case "string":
			out = append(out, func(word string) any { return word })
		case "array":
			for _, item := range texted(c["items"].(object)) {
				out = append(out, func(word string) any { return []any{item(word)} })
			}
		case "object":
			if more, ok := c["additionalProperties"].(object); ok {
				for _, value := range texted(more) {
					out = append(out, func(word string) any { return object{"x1": value(word)} }, func(word string) any { return object{word: value("x1")} })
				}
			}
		}
	}
	return out
}

// commandsOf are the shapes of all commands in what is said about a file: how many words each
// has, and those that are not the given one.
func commandsOf(t *testing.T, s *spec.Spec, login ssh.Signer, word string) (out []string, carry int) {
	empty := pvesim.OneGPU()
	empty.ACLs = nil
	for _, model := range []*pvesim.Model{nil, &empty} {
		onHosts(t, s, login, model, func(t *testing.T, b Backend) {
			for _, text := range append(planned(t, s, b), examined(t, s, b)...) {
				for line := range strings.Lines(text) {
					for _, at := range program.FindAllStringIndex(line, -1) {
						command := shapeOf(line[at[0]:], word)
						if out = append(out, command); command != shapeOf(line[at[0]:], "\x00") {
							carry++
						}
					}
				}
			}
		})
	}
	return out, carry
}

// program begins a command in a text for a person.
var program = regexp.MustCompile(`\b(?:go tool mage|pveum|pvesm|pvesh|qm|kubectl|helm|chmod|ssh -p|sudo|ssh-add|systemctl|journalctl|ip link|ceph|install|echo|mkdir|apt-get) `)

// shapeOf is a command without the given word: it ends where a sentence goes on that has it.
func shapeOf(text, word string) string {
	quoted := false
	for i := range text {
		switch rest := text[i:]; {
		case rest[0] == '\'':
			quoted = !quoted
		case quoted:
		case rest[0] == '`', rest[0] == '\n', strings.HasPrefix(rest, " ("), strings.HasPrefix(rest, ", "), strings.HasPrefix(rest, "; "), strings.HasPrefix(rest, ": "):
			return strings.ReplaceAll(text[:i], printable.Word(word), "tame")
		}
	}
	return strings.ReplaceAll(text, printable.Word(word), "tame")
}

// examined is what other commands say about a file that asks for a cluster which is not there.
func examined(t *testing.T, asked *spec.Spec, b Backend) (said []string) {
	for _, w := range asked.Warnings {
		said = append(said, w.Error())
	}
	if b.Proxmox != nil {
		said = append(said, hostprep.RoleScript(asked, proxmox.Version{Version: "9.0"}, "homelab@pve!x"))
	}
	s, err := placement.Place(t.Context(), asked, b.Proxmox)
	if err != nil {
		return append(said, err.Error())
	}
	c, err := New(s, b)
	require.NoError(t, err)
	defer c.Close()
	if report, err := c.HostCheck(t.Context(), nil); err == nil {
		for _, f := range slices.Concat(report.WithVerdict(preflight.Error), report.WithVerdict(preflight.Warning), report.WithVerdict(preflight.Skipped)) {
			said = append(said, f.String())
		}
	}
	found, err := doctor.Examine(t.Context(), c.Doctor())
	require.NoError(t, err)
	for _, f := range found.Findings {
		said = append(said, f.What+"\n"+f.Do)
	}
	down, err := c.Down(t.Context())
	if err == nil {
		_, err = down.Plan(t.Context())
	}
	return append(said, fmt.Sprint(err))
}
