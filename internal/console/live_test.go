package console

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/secret"
)

// scripted is a step of which is known how it will go. It runs in virtual time.
type scripted struct {
	id    string
	takes time.Duration
	says  []string
	waits string // what it waits for, if it does not act
	fails error
	done  bool
}

func (s *scripted) Name() string { return s.id }

func (s *scripted) Check(ctx context.Context) (converge.Diff, converge.Act, error) {
	switch {
	case s.done:
		return nil, nil, nil
	case s.waits != "":
		if s.takes -= time.Second; s.takes <= 0 {
			s.done = true
		}
		return converge.Diff{{Have: "connection refused", Want: s.waits, Effect: converge.Create}}, nil, nil
	}
	return converge.Missing("16 cores, 128GiB"), func(ctx context.Context) error {
		pieces := max(1, len(s.says))
		for i := range pieces {
			if len(s.says) > 0 {
				converge.Progressf(ctx, "%s", s.says[i])
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(s.takes / time.Duration(pieces)):
			}
		}
		s.done = true
		return s.fails
	}, nil
}

// site is a run like that of package cluster: servers and GPU workers, each a
// chain of its own. change may alter steps.
func site(workers int, change func(*scripted)) *converge.Graph {
	g := &converge.Graph{}
	add := func(s *scripted, needs ...*converge.Ref) *converge.Ref {
		if change != nil {
			change(s)
		}
		return g.Add(s, needs...)
	}
	host := add(&scripted{id: "proxmox", done: true})
	template := add(&scripted{id: "template/pve1", takes: 92 * time.Second, says: []string{"fetching the cloud image", "installing NVIDIA driver 580-server-open", "sealing"}}, host)
	names := []string{"cp1", "cp2", "cp3"}
	for i := range workers {
		names = append(names, fmt.Sprintf("wk-gpu%d", i+1))
	}
	booted := map[string]*converge.Ref{}
	for i, n := range names {
		seed := add(&scripted{id: "seed/" + n, takes: 300 * time.Millisecond, says: []string{"task imgcopy on pve1"}}, host)
		vm := add(&scripted{id: "vm/" + n, takes: time.Duration(12+i%7) * time.Second, says: []string{"cloning " + n, "starting " + n + ", up to 4m12s"}}, template, seed)
		booted[n] = add(&scripted{id: "guest/" + n, takes: 30 * time.Second, waits: "a login over SSH"}, vm)
	}
	first := add(&scripted{id: "k3s/cp1", takes: 11 * time.Second, says: []string{"starting k3s server"}}, booted["cp1"])
	api := add(&scripted{id: "api/10.0.0.100", takes: 4 * time.Second, waits: "the API answers at 10.0.0.100:6443"}, first)
	ready := add(&scripted{id: "node/cp1", takes: 2 * time.Second}, api)
	for i, n := range names[1:] {
		joined := add(&scripted{id: "k3s/" + n, takes: 9*time.Second + time.Duration(i)*130*time.Millisecond}, booted[n], api)
		ready = add(&scripted{id: "node/" + n, takes: 2 * time.Second}, joined)
	}
	add(&scripted{id: "leftovers", done: true}, ready)
	return g
}

// watch runs g on a terminal in virtual time; at each of the moments, look is shown
// what is on the screen.
func watch(t *testing.T, term *terminal, colour bool, g *converge.Graph, moments []time.Duration, look func(time.Duration)) *converge.Report {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := &Console{Talk: term, Live: true, Redact: &secret.Redactor{},
		talk: face{paint: paint(colour), size: func() (int, int) { return term.width, term.height }}}
	d := c.Display(g.Names())
	require.IsType(t, &liveDisplay{}, d)
	finished := make(chan *converge.Report)
	go func() {
		report, _ := g.Run(ctx, d.Listen)
		finished <- report
	}()
	at := time.Duration(0)
	for _, m := range moments {
		time.Sleep(m - at)
		at = m
		synctest.Wait()
		look(m)
	}
	report := <-finished
	d.Close()
	return report
}

func TestLiveRun(t *testing.T) {
	for _, size := range []struct{ width, height int }{{80, 24}, {120, 40}, {60, 15}} {
		t.Run(fmt.Sprintf("%dx%d", size.width, size.height), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				term := newTerminal(size.width, size.height)
				var b strings.Builder
				moments := []time.Duration{500 * time.Millisecond, 70 * time.Second, 100 * time.Second, 130 * time.Second, 150 * time.Second}
				report := watch(t, term, true, site(4, nil), moments, func(at time.Duration) {
					fmt.Fprintf(&b, "--- after %s\n%s", at, term.screen())
				})
				fmt.Fprintf(&b, "--- at the end\n%s", term.screen())
				golden(t, fmt.Sprintf("live_%dx%d.txt", size.width, size.height), b.String())

				assert.Empty(t, term.faults)
				assert.Equal(t, 0, term.x)
				assert.Zero(t, report.Count(converge.FailedStep))
				// Each part that changed has its line, once, and no row is left over.
				all := term.all()
				for _, name := range []string{"pve1", "cp1", "cp2", "cp3", "wk-gpu1", "wk-gpu2", "wk-gpu3", "wk-gpu4"} {
					assert.Equal(t, 1, strings.Count(all, "✓ "+name+" "), name)
				}
				assert.Equal(t, 1, strings.Count(all, "✓ cluster"))
				assert.Equal(t, 9, strings.Count(all, "\n"), all)
			})
		})
	}
}

func TestLiveFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := newTerminal(72, 24)
		g := site(4, func(s *scripted) {
			if s.id == "k3s/wk-gpu2" {
				s.fails = errors.New("the journal says: Node password rejected, duplicate hostname or contents of the password file may not match\n  delete it: kubectl -n kube-system delete secret wk-gpu2.node-password.k3s")
			}
		})
		var seen string
		watch(t, term, false, g, []time.Duration{159 * time.Second}, func(time.Duration) { seen = term.screen() })
		golden(t, "live_failure.txt", "--- at once\n"+seen+"--- at the end\n"+term.screen())
		assert.Empty(t, term.faults)
		assert.Equal(t, 1, strings.Count(term.all(), "Node password rejected"), "it is in sight and need not be told again")
	})
}

func TestLiveFailureOutOfSightIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := newTerminal(72, 20)
		g := site(40, func(s *scripted) {
			if s.id == "seed/wk-gpu2" {
				s.fails = errors.New("no space left on local")
			}
		})
		watch(t, term, false, g, nil, nil)
		assert.Empty(t, term.faults)
		assert.Equal(t, 2, strings.Count(term.all(), "no space left on local"))
		assert.Equal(t, 1, strings.Count(term.screen(), "no space left on local"))
		assert.Contains(t, term.screen(), "- wk-gpu2: not started: vm, first boot, K3s, node")
	})
}

func TestLiveCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := newTerminal(80, 24)
		var seen string
		watch(t, term, false, site(97, nil), []time.Duration{100 * time.Second}, func(time.Duration) { seen = term.screen() })
		golden(t, "live_crowd.txt", seen)
		assert.Empty(t, term.faults)
		for i := range 97 {
			assert.Equal(t, 1, strings.Count(term.all(), fmt.Sprintf("✓ wk-gpu%d ", i+1)))
		}
	})
}

func TestLiveNothingToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := newTerminal(80, 24)
		watch(t, term, true, site(4, func(s *scripted) { s.done = true }), nil, nil)
		assert.Empty(t, term.faults)
		assert.Equal(t, "\n", term.all(), "a run that changes nothing leaves nothing")
	})
}

func TestLiveInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := newTerminal(80, 24)
		ctx, cancel := context.WithTimeout(t.Context(), 112*time.Second)
		defer cancel()
		c := &Console{Talk: term, Live: true, talk: face{size: func() (int, int) { return 80, 24 }}}
		g := site(4, nil)
		d := c.Display(g.Names())
		_, err := g.Run(ctx, d.Listen)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		d.Close()
		assert.Empty(t, term.faults)
		assert.False(t, term.hidden)
		golden(t, "live_interrupted.txt", term.screen())
	})
}

func TestLiveTerminalBecomesNarrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{size: func() (int, int) { return 100, 24 }}
		first := newTerminal(100, 24)
		s.to = first
		s.draw(nil, []row{newRow(100, span{strings.Repeat("x", 200), nil}), newRow(100, span{"short", nil})})
		assert.Empty(t, first.faults)

		// The terminal breaks the first row in two: there are three lines to go up.
		s.size = func() (int, int) { return 60, 24 }
		second := newTerminal(60, 24)
		fmt.Fprint(second, "before\n"+strings.Repeat("x", 59)+"\n"+strings.Repeat("x", 40)+"\nshort\n")
		s.to = second
		s.draw([]string{"done"}, []row{newRow(60, span{strings.Repeat("y", 200), nil})})
		assert.Empty(t, second.faults)
		assert.Equal(t, "before\ndone\n"+strings.Repeat("y", 58)+"…\n", second.screen())
	})
}

func TestLiveSpeaksOnlyWhenThereIsSomethingNew(t *testing.T) {
	term := newTerminal(80, 24)
	s := &screen{to: term, size: func() (int, int) { return 80, 24 }}
	for range 5 {
		s.draw(nil, []row{newRow(80, span{"same", nil})})
	}
	assert.Equal(t, 1, term.writes)
}

func TestLiveForeignText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := newTerminal(50, 24)
		const token = "s3cr3t-t0k3n-0123456789-abcdefghijklmnopqrstuvwxyz"
		c := &Console{Talk: term, Live: true, Redact: secret.NewRedactor(secret.New(token)),
			talk: face{size: func() (int, int) { return 50, 24 }}}
		d := c.Display([]string{"vm/日本語のノード", "guest/日本語のノード"})
		say := func(kind converge.Kind, message string, err error) {
			d.Listen(converge.Event{Time: time.Now(), Step: "vm/日本語のノード", Kind: kind, Message: message, Err: err, Elapsed: 3 * time.Second})
			time.Sleep(time.Second)
			synctest.Wait()
		}
		say(converge.Checking, "", nil)
		say(converge.Progress, "\x1b[2J\x1b]0;title\x07\x1b[31mred\x1b[0m\u009b5A\a\x9b  two\n\nlines 漢字漢字漢字漢字漢字漢字漢字漢字", nil)
		assert.Contains(t, term.screen(), "red5A� two")
		assert.Contains(t, term.screen(), "…")
		say(converge.Progress, "login with "+token, nil)
		assert.NotContains(t, term.screen(), "s3cr3t", "a secret that is cut is still a secret")
		assert.Contains(t, term.screen(), "login with [sec…")
		say(converge.FailedStep, "", errors.New("refused "+token+"\x1b[1A\n\nask somebody"))
		d.Close()
		assert.Empty(t, term.faults)
		assert.NotContains(t, term.all(), "s3cr3t")
		assert.Contains(t, term.all(), "    refused [secret]\n    ask somebody\n")
	})
}

func TestUnannouncedSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := newTerminal(80, 24)
		watched := &Console{Talk: term, Live: true, talk: face{size: func() (int, int) { return 80, 24 }}}
		d := watched.Display(nil)
		for _, kind := range []converge.Kind{converge.Checking, converge.Acting, converge.Changed, converge.Changed} {
			d.Listen(converge.Event{Time: time.Now(), Step: "vm/a", Kind: kind, Elapsed: time.Second})
		}
		d.Close()
		assert.Equal(t, 1, strings.Count(term.screen(), "✓ a"))
	})
}

func TestCrowd(t *testing.T) {
	busy := func(n int) bool { return n >= 10 }
	shown, more := crowd([]int{1, 11, 2, 12, 3, 13}, 4, busy)
	assert.Equal(t, []int{11, 12, 13}, shown)
	assert.Equal(t, 3, more)
	shown, more = crowd([]int{1, 11, 2, 3}, 3, busy)
	assert.Equal(t, []int{1, 11}, shown)
	assert.Equal(t, 2, more)
	shown, more = crowd([]int{1, 2}, 2, busy)
	assert.Equal(t, []int{1, 2}, shown)
	assert.Zero(t, more)
}

// A run that begins again is shown as one that has just begun.
func TestLiveBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := newTerminal(80, 24)
		c := &Console{Talk: term, Live: true, Redact: &secret.Redactor{}, talk: face{size: func() (int, int) { return 80, 24 }}}
		g := site(1, nil)
		d := c.Display(g.Names())
		for _, name := range g.Names() {
			d.Listen(converge.Event{Step: name, Kind: converge.Checking, Time: time.Now()})
			d.Listen(converge.Event{Step: name, Kind: converge.Unchanged, Time: time.Now()})
		}
		d.Reset()
		_, err := g.Run(t.Context(), d.Listen)
		require.NoError(t, err)
		d.Close()
		assert.Empty(t, term.faults)
		for _, name := range []string{"pve1", "cp1", "cp2", "cp3", "wk-gpu1"} {
			assert.Equal(t, 1, strings.Count(term.all(), "✓ "+name+" "), term.all())
		}
	})
}
