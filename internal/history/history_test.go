package history_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/history"
)

// on is the result of a card on a day of November.
func on(day int, change func(*history.Record)) history.Record {
	r := history.Record{Time: time.Date(2026, 11, day, 6, 0, 0, 0, time.UTC), Node: "wk1", UUID: "GPU-1", Model: "A100", Driver: "580.95.05", Memory: 40 << 30, Passed: true}
	if change != nil {
		change(&r)
	}
	return r
}

func bandwidth(v float64) func(*history.Record) {
	return func(r *history.Record) {
		r.Measures = []history.Measure{{Name: "memory bandwidth", Value: v, Unit: "GB/s"}, {Name: "time", Value: 1000 / v, Unit: "s", Less: true}}
	}
}

// driven is a bandwidth under another driver.
func driven(driver string, v float64) func(*history.Record) {
	return func(r *history.Record) { bandwidth(v)(r); r.Driver = driver }
}

// node is what was measured of a node as a whole.
func node(day int, v float64) history.Record {
	return on(day, func(r *history.Record) {
		r.Index, r.UUID, r.Level, r.Memory = history.Whole, "", "full", 0
		r.Measures = []history.Measure{{Name: "scratch write", Value: v, Unit: "MB/s"}}
	})
}

func TestCompare(t *testing.T) {
	failed := func(r *history.Record) { r.Passed, r.Detail = false, "error 719" }
	for name, x := range map[string]struct {
		past         []history.Record
		now          history.Record
		worse, other []string
	}{
		"the first":      {now: on(20, nil)},
		"no difference":  {past: []history.Record{on(1, nil), on(2, bandwidth(1400))}, now: on(20, bandwidth(1390))},
		"fails now":      {past: []history.Record{on(1, failed), on(2, nil)}, now: on(20, failed), worse: []string{"it passed on 2026-11-02"}},
		"passes again":   {past: []history.Record{on(1, nil), on(2, failed)}, now: on(20, nil), other: []string{"it failed on 2026-11-02"}},
		"still fails":    {past: []history.Record{on(2, failed)}, now: on(20, failed)},
		"another driver": {past: []history.Record{on(2, func(r *history.Record) { r.Driver = "575.57.08" })}, now: on(20, nil), other: []string{"driver 575.57.08 on 2026-11-02"}},
		"less memory":    {past: []history.Record{on(2, func(r *history.Record) { r.Memory++ })}, now: on(20, nil), worse: []string{"less memory than on 2026-11-02"}},
		"another node":   {past: []history.Record{on(2, func(r *history.Record) { r.Node = "wk7" })}, now: on(20, nil), other: []string{"in wk7 on 2026-11-02"}},
		"another card":   {past: []history.Record{on(2, func(r *history.Record) { r.UUID = "GPU-0" })}, now: on(20, nil), other: []string{"another card than on 2026-11-02 (GPU-0)"}},
		"cards of other places": {past: []history.Record{
			on(2, func(r *history.Record) { r.UUID, r.Node = "GPU-0", "wk2" }), on(2, func(r *history.Record) { r.UUID, r.Index = "GPU-0", 1 }),
			on(21, func(r *history.Record) { r.UUID = "GPU-0" }), on(2, func(r *history.Record) { r.UUID = "" }),
		}, now: on(20, nil)},
		"the last of other cards": {past: []history.Record{on(4, func(r *history.Record) { r.UUID = "GPU-4" }), on(2, func(r *history.Record) { r.UUID = "GPU-2" })}, now: on(20, nil), other: []string{"another card than on 2026-11-04 (GPU-4)"}},
		"later ones":              {past: []history.Record{on(21, failed)}, now: on(20, nil)},
		"another level":           {past: []history.Record{on(2, func(r *history.Record) { bandwidth(1400)(r); r.Level = "burn" })}, now: on(20, bandwidth(900))},
		"a failed one":            {past: []history.Record{on(2, func(r *history.Record) { bandwidth(1400)(r); failed(r) })}, now: on(20, bandwidth(900)), other: []string{"it failed on 2026-11-02"}},
		"slower":                  {past: []history.Record{on(2, bandwidth(1000))}, now: on(20, bandwidth(800)), worse: []string{"memory bandwidth 800 GB/s is slower than last time: 1000 GB/s on 2026-11-02 (-20 %)", "time 1.25 s is slower than last time: 1.00 s on 2026-11-02 (+25 %)"}},
		"faster":                  {past: []history.Record{on(2, bandwidth(800))}, now: on(20, bandwidth(1000))},
		"slowly slower":           {past: []history.Record{on(2, bandwidth(1000)), on(5, bandwidth(990)), on(9, bandwidth(920)), on(12, bandwidth(900))}, now: on(20, bandwidth(870)), worse: []string{"memory bandwidth 870 GB/s is slower than last month: median 990 GB/s of 4 runs since 2026-11-02 (-12 %)", "time 1.15 s is slower than last month: median 1.09 s of 4 runs since 2026-11-02 (+6 %)"}},
		"slower after another driver": {past: []history.Record{on(2, driven("575.57.08", 1000)), on(5, driven("575.57.08", 1000))}, now: on(20, bandwidth(800)),
			worse: []string{
				"memory bandwidth 800 GB/s is slower than last time: 1000 GB/s on 2026-11-05 (-20 %), driver 575.57.08 until 2026-11-05",
				"time 1.25 s is slower than last time: 1.00 s on 2026-11-05 (+25 %), driver 575.57.08 until 2026-11-05",
			}, other: []string{"driver 575.57.08 on 2026-11-05"}},
		"the same driver counts": {past: []history.Record{on(1, bandwidth(805)), on(2, bandwidth(800)), on(3, bandwidth(795)), on(5, driven("575.57.08", 1000))}, now: on(20, bandwidth(790)),
			other: []string{"driver 575.57.08 on 2026-11-05"}},
		"disks are noisy": {past: []history.Record{node(2, 800)}, now: node(20, 600)},
		"a slow disk": {past: []history.Record{on(2, bandwidth(1)), node(2, 800), node(3, 700), node(4, 900)}, now: node(20, 80),
			worse: []string{"scratch write 80.0 MB/s is slower than last month: median 800 MB/s of 3 runs since 2026-11-02 (-90 %)"}},
		"an old record has no level": {past: []history.Record{on(2, bandwidth(1000))}, now: on(20, func(r *history.Record) { bandwidth(990)(r); r.Level = "quick" })},
		"slow for a month": {past: []history.Record{on(-11, bandwidth(1000)), on(-10, bandwidth(1000)), on(12, bandwidth(900))}, now: on(20, bandwidth(890)),
			worse: []string{"memory bandwidth 890 GB/s is slower than last month: median 1000 GB/s of 3 runs since 2026-10-20 (-11 %)", "time 1.12 s is slower than last month: median 1.00 s of 3 runs since 2026-10-20 (+12 %)"}},
		"slow for a year": {past: []history.Record{on(-300, bandwidth(1000)), on(-299, bandwidth(1000)), on(-298, bandwidth(1000)), on(12, bandwidth(900))}, now: on(20, bandwidth(890))},
	} {
		t.Run(name, func(t *testing.T) {
			d := history.Compare(x.past, x.now)
			assert.Equal(t, x.worse, d.Regressions())
			assert.Equal(t, x.other, d.Other)
		})
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".homelab", "lab", history.File)
	none, bad, err := history.Read(path, false)
	require.NoError(t, err)
	assert.Empty(t, none)
	assert.Zero(t, bad)

	require.NoError(t, history.Add(path, on(1, bandwidth(1000)), on(1, func(r *history.Record) { r.UUID, r.Index = "GPU-2", 1 })))
	require.NoError(t, history.Add(path, on(3, nil)))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, "-rw-------", info.Mode().String())
	all, bad, err := history.Read(path, false)
	require.NoError(t, err)
	assert.Zero(t, bad)
	require.Len(t, all, 3)
	want := on(1, bandwidth(1000))
	want.Schema = history.Schema
	assert.Equal(t, want, all[0])
	assert.Len(t, history.RecordsOf(all, all[0]), 2)
	assert.Equal(t, []history.Record{all[2]}, history.Latest(all), "a run of the node has the results of all its cards")
}

// Lines of a later version, and lines that a crash or a person left, do not hide the others.
func TestFileOfAnotherVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), history.File)
	require.NoError(t, os.WriteFile(path, []byte(`{"schema":9,"time":"2026-11-01T06:00:00Z","node":"wk1","uuid":"GPU-1","passed":true,"topology":{"nvlink":12}}
not a result
{"time":"2026-11-01T06:00:00Z","node":"wk1"}
{"schema":1,"node":"wk1"}
{"schema":1,"time":"2026-11-01T06:00:00Z","node":1}
{"schema":1,"time":"2026-11-02T06:00`), 0o600))
	require.NoError(t, history.Add(path, on(3, nil)))
	all, bad, err := history.Read(path, false)
	require.NoError(t, err)
	assert.Equal(t, 5, bad)
	require.Len(t, all, 2)
	assert.True(t, all[0].Passed)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Contains(t, string(text), "nvlink", "what is not known stays")
}

func TestFileDoesNotGrowForever(t *testing.T) {
	path := filepath.Join(t.TempDir(), history.File)
	long := on(1, func(r *history.Record) { r.Detail = strings.Repeat("x", 1<<20) })
	for range 9 {
		require.NoError(t, history.Add(path, long))
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Less(t, info.Size(), int64(6<<20))
	all, bad, err := history.Read(path, false)
	require.NoError(t, err)
	assert.Zero(t, bad)
	assert.NotEmpty(t, all)
}

func TestMeasure(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.5: "0.500", 9.99: "9.99", 99.9: "99.9", 100: "100", 1234.5: "1234", -12: "-12.0"} {
		assert.Equal(t, want, history.Measure{Value: v}.String())
		assert.Equal(t, want+" s", history.Measure{Value: v, Unit: "s"}.String())
	}
}

func TestLastRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".homelab", history.RunFile)
	last := func() *history.Run {
		r, err := history.LastRun(path)
		require.NoError(t, err)
		return r
	}
	assert.Nil(t, last())
	require.NoError(t, history.SaveRun(path, history.Run{}))
	failed := history.Run{Ended: on(1, nil).Time, Failed: []history.Step{{Name: "vm/cp1", Error: "no space"}}}
	require.NoError(t, history.SaveRun(path, failed))
	assert.Equal(t, &failed, last())
	require.NoError(t, history.SaveRun(path, history.Run{}))
	assert.Nil(t, last())
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err := history.LastRun(path)
	require.ErrorContains(t, err, "the last run")
	_, err = history.LastRun(filepath.Dir(path))
	assert.ErrorContains(t, err, "the last run")
}

func TestSameSubject(t *testing.T) {
	whole := history.Record{Node: "wk1", Index: history.Whole}
	card := history.Record{Node: "wk1", UUID: "GPU-1"}
	for _, tt := range []struct {
		a, b history.Record
		want bool
	}{
		{card, history.Record{Node: "wk2", Index: 3, UUID: "GPU-1"}, true}, {card, history.Record{Node: "wk1", UUID: "GPU-2"}, false}, {card, history.Record{Node: "wk1"}, false},
		{whole, whole, true}, {whole, history.Record{Node: "wk1"}, false}, {whole, history.Record{Node: "wk2", Index: history.Whole}, false},
	} {
		assert.Equal(t, tt.want, tt.a.SameSubject(tt.b), "%v", tt)
		assert.Equal(t, tt.want, tt.b.SameSubject(tt.a), "%v", tt)
	}
}
