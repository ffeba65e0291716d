package drift_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/converge/drift"
)

func ExampleCompare() {
	var d drift.Diff
	d = append(d, drift.Compare("cores", 16, 16, drift.Restart)...)
	d = append(d, drift.Compare("memory", "128GiB", "96GiB", drift.Restart)...)
	d = append(d, drift.Compare("description", "", "a worker", drift.Update)...)
	fmt.Println(d)
	fmt.Println(d.Effect())
	// Output:
	// memory: 128GiB → 96GiB (needs a restart); description: "" → a worker
	// needs a restart
}

func TestDiff(t *testing.T) {
	assert.True(t, drift.Diff(nil).Empty())
	assert.Equal(t, "16 cores, 128GiB", drift.Missing("16 cores, 128GiB").String())
	assert.Equal(t, drift.Create, drift.Missing("x").Effect())
	assert.Equal(t, "vm 104 → (none)", drift.Unwanted("vm 104").String())
	assert.Equal(t, "vm/wk1: x", drift.Missing("x").Under("vm/wk1").String())
	d := drift.Diff{{Path: "a", Have: "1", Want: "2", Effect: drift.Replace, Note: "why"}}
	assert.Equal(t, "a: 1 → 2 (needs a replacement) [why]", d.String())
	js, err := json.Marshal(d)
	require.NoError(t, err)
	assert.JSONEq(t, `[{"path":"a","have":"1","want":"2","effect":"replace","note":"why"}]`, string(js))
}
