package benches

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/internal/bench"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia/check"
)

// A measurement that did not say all that it should is one failed check, with the cause.
func TestComplete(t *testing.T) {
	one := []check.Check{{Verdict: check.Passed}}
	done, late := kube.Job{Phase: kube.JobSucceeded}, kube.Job{Phase: kube.JobFailed, Reason: "DeadlineExceeded"}
	failed := kube.Job{Phase: kube.JobFailed, Reason: "no such image"}
	unread := errors.New("no line of it")
	for _, tt := range []struct {
		kind    bench.Kind
		checks  []check.Check
		job     kube.Job
		problem error
		want    string
		gpus    int
		of      int
	}{
		{bench.Burn, one, done, nil, "", 1, 1},
		{bench.AllReduce, one, done, nil, "", 2, 1},
		{bench.AcrossNodes, one, done, nil, "", 2, 1},
		{bench.Burn, nil, late, unread, "the job did not end in time: DeadlineExceeded", 2, 1},
		{bench.Burn, nil, failed, unread, "no line of it", 2, 1},
		{bench.Burn, nil, done, unread, "no line of it", 2, 1},
		{bench.Burn, one, failed, nil, "the job failed: no such image", 2, 2},
		{bench.Burn, []check.Check{{Verdict: check.Failed}}, failed, nil, "1 of 2 GPUs left a result", 2, 2},
		{bench.AllReduce, nil, done, nil, "0 of 2 GPUs left a result", 2, 1},
	} {
		got := complete(tt.kind, "wk1", tt.checks, tt.gpus, tt.job, tt.problem)
		assert.Len(t, got, tt.of)
		if tt.want == "" {
			assert.Equal(t, tt.checks, got)
			continue
		}
		assert.Equal(t, tt.want, got[len(got)-1].Detail)
		assert.Equal(t, check.Failed, got[len(got)-1].Verdict)
	}
}

// A Job that ran out of time says what it last waited for.
func TestRememberedWait(t *testing.T) {
	var w waitReason
	late := kube.Job{Phase: kube.JobFailed, Reason: "DeadlineExceeded"}
	assert.Equal(t, late, w.remember(late))
	for _, j := range []kube.Job{{Phase: kube.JobPending, Reason: "no GPU"}, {Phase: kube.JobPending}, {Phase: kube.JobActive, Reason: "it pulls"}} {
		assert.Equal(t, j, w.remember(j))
	}
	assert.Equal(t, "DeadlineExceeded; it waited: no GPU", w.remember(late).Reason)
	other := kube.Job{Phase: kube.JobFailed, Reason: "BackoffLimitExceeded"}
	assert.Equal(t, other, w.remember(other))
}

func TestWordsOfAMeasurement(t *testing.T) {
	b := &Benches{Config: Config{Burn: time.Minute}}
	assert.Equal(t, "a load of 1m0s", b.description(bench.Burn))
	assert.Equal(t, string(bench.AllReduce), b.description(bench.AllReduce))
	assert.Equal(t, "failed: no GPU", differs(kube.Job{Phase: kube.JobFailed, Reason: "no GPU"}, "it ends")[0].Have)
	assert.Equal(t, 10, slower(0, 10, true))
	assert.Equal(t, 1, slower(10, 1, false))
	assert.Zero(t, slower(0, 10, false), "an unknown speed stays unknown")
}
