package session

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/history"
	"github.com/cps-gpu/homelab/internal/modelserver"
	"github.com/cps-gpu/homelab/secret"
)

// Models are compared with themselves: not after their source or engine has changed, and not with the lab.
func TestModelResultsAreCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), history.ModelFile)
		run := func(lab bool, change func(*modelResult)) []string {
			time.Sleep(time.Hour)
			r := modelResult{Model: "qwen", Engine: "vllm", Source: "Qwen/Qwen2.5-7B-Instruct", Passed: true, Rate: 60, FirstToken: 200}
			if change != nil {
				change(&r)
			}
			all := []modelResult{r}
			require.NoError(t, rememberModels(file, lab, all))
			return all[0].Remarks
		}
		assert.Empty(t, run(false, nil))
		assert.Empty(t, run(false, func(r *modelResult) { r.Rate, r.FirstToken = 55, 390 }), "others use the model too")
		assert.Equal(t, []string{"answer 20.0 tokens/s is slower than last time: 55.0 tokens/s on 2000-01-01 (-64 %)"}, run(false, func(r *modelResult) { r.Rate = 20 }))
		assert.Empty(t, run(false, func(r *modelResult) { r.Source, r.Rate = "Qwen/Qwen2.5-72B-Instruct", 5 }))
		assert.Empty(t, run(false, func(r *modelResult) { r.Engine, r.Rate = "llama.cpp", 5 }))
		assert.Empty(t, run(true, func(r *modelResult) { r.Rate = 5 }))
		assert.Equal(t, []string{"it passed on 2000-01-01"}, run(false, func(r *modelResult) { r.Passed, r.Error, r.Rate, r.FirstToken = false, "it is crashed", 0, 0 }))
		assert.Equal(t, []string{"it failed on 2000-01-01"}, run(false, nil))
		text := run(false, func(r *modelResult) { r.FirstToken = 900 })
		require.Len(t, text, 1)
		assert.Contains(t, text[0], "first token 900 ms is slower than last month")
	})
}

func TestModelTables(t *testing.T) {
	var data bytes.Buffer
	s := &Session{Console: &console.Console{Data: &data, Redact: &secret.Redactor{}}, Spec: &spec.Spec{}}
	results := []modelResult{
		{Model: "big", Engine: "vllm", Source: "Qwen/Qwen2.5-72B-Instruct", Nodes: []string{"wk1"}, Error: "it is crashed: CUDA out of memory"},
		{Model: "qwen", Engine: "vllm", Source: "Qwen/Qwen2.5-7B-Instruct", Nodes: []string{"wk1", "wk2"}, Passed: true, FirstToken: 210, Tokens: 64, Rate: 58.25, Answer: "A GPU computes", Remarks: []string{"it failed on 2026-11-20"}},
		{Model: "night", Engine: "vllm", Asleep: "until 22:00 Europe/Vienna"},
		{Model: "silent", Passed: true, FirstToken: 12, Answer: "Yes"},
	}
	require.NoError(t, printModels(s, results))
	printModelList(s, []modelserver.Server{
		{Name: "big", Engine: "vllm", Source: "Qwen/Qwen2.5-72B-Instruct", Wanted: 1, GPUs: 2, Nodes: []string{"wk1"}, Address: "http://big.models.svc:8000/v1", State: modelserver.Crashed, Detail: "CUDA out of memory"},
		{Name: "night", Engine: "vllm", Source: "a/c", GPUs: 1, Address: "http://night.models.svc:8000/v1", State: modelserver.Asleep, Detail: "until 22:00 Europe/Vienna"},
		{Name: "off", Engine: "llama.cpp", Source: "a/b", Context: 4096, GPUs: 1, Address: "http://off.models.svc:8000/v1", State: modelserver.Off},
		{Name: "qwen", Engine: "vllm", Source: "Qwen/Qwen2.5-7B-Instruct", Context: 8192, Ready: 1, Wanted: 2, GPUs: 1, Nodes: []string{"wk2"}, Address: "http://qwen.models.svc:8000/v1", State: modelserver.Ready, Detail: "1 of 2 replicas are ready"},
	})
	printModelUse(s, []modelserver.Use{{Key: "(administrator)", Model: "qwen", Requests: 1, Input: 15, Output: 32}, {Key: "alice", Model: "qwen", Requests: 1204, Input: 301000, Output: 98000}})
	golden(t, "models.txt", data.String())

	data.Reset()
	s.JSON = true
	require.NoError(t, printModels(s, results[1:2]))
	assert.Equal(t, `{"model":"qwen","engine":"vllm","source":"Qwen/Qwen2.5-7B-Instruct","nodes":["wk1","wk2"],"passed":true,"firstTokenMs":210,"tokens":64,"tokensPerSecond":58.25,"answer":"A GPU computes","remarks":["it failed on 2026-11-20"]}`,
		strings.TrimSpace(data.String()))
}

func TestFirstWords(t *testing.T) {
	for text, want := range map[string]string{"": "", " a\n b ": "a b", "1 2 3 4 5 6 7 8": "1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8 9": "1 2 3 4 5 6 7 8 …"} {
		assert.Equal(t, want, firstWords(text))
	}
}
