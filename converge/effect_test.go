package converge_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
)

func ExampleCompare() {
	var d converge.Diff
	d = append(d, converge.Compare("cores", 16, 16, converge.Restart)...)
	d = append(d, converge.Compare("memory", "128GiB", "96GiB", converge.Restart)...)
	d = append(d, converge.Compare("description", "", "a worker", converge.Update)...)
	fmt.Println(d)
	fmt.Println(d.Effect())
	// Output:
	// memory: 128GiB → 96GiB (needs a restart); description: "" → a worker
	// needs a restart
}

func TestDiff(t *testing.T) {
	assert.True(t, converge.Diff(nil).Empty())
	assert.Equal(t, "16 cores, 128GiB", converge.Missing("16 cores, 128GiB").String())
	assert.Equal(t, converge.Create, converge.Missing("x").Effect())
	assert.Equal(t, "vm 104 → (none)", converge.DiffUnwanted("vm 104").String())
	assert.Equal(t, "vm/wk1: x", converge.Missing("x").WithPrefix("vm/wk1").String())
	d := converge.Diff{{Path: "a", Have: "1", Want: "2", Effect: converge.Replace, Note: "why"}}
	assert.Equal(t, "a: 1 → 2 (needs a replacement) [why]", d.String())
	js, err := json.Marshal(d)
	require.NoError(t, err)
	assert.JSONEq(t, `[{"path":"a","have":"1","want":"2","effect":"replace","note":"why"}]`, string(js))
}

func TestEffectInWords(t *testing.T) {
	assert.Equal(t, "[update needs a restart create needs a replacement remove]",
		fmt.Sprint([]converge.Effect{converge.Update, converge.Restart, converge.Create, converge.Replace, converge.Remove}))
}

// What is lost is read from JSON as it is written there.
func TestLossAsText(t *testing.T) {
	js, err := json.Marshal(converge.Loss{Text: "disk data", ID: "1", Unknown: true})
	require.NoError(t, err)
	assert.Equal(t, `"disk data"`, string(js))
	l := converge.Loss{ID: "2"}
	require.NoError(t, json.Unmarshal(js, &l))
	assert.Equal(t, converge.Loss{Text: "disk data"}, l)
}
