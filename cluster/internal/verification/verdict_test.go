package verification

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/nvidia"
	"github.com/cps-gpu/homelab/nvidia/check"
)

// A Job that has ended is good only if it succeeded, and each GPU that it requested computed.
func TestVerdict(t *testing.T) {
	n := &verifiedPart{Node: spec.Node{Name: "wk1"}, resource: nvidia.Resource, count: 1}
	good, bad := check.VerifyResult{Passed: true}, check.VerifyResult{Detail: "wrong sum"}
	for want, s := range map[string]jobState{
		"":                              {Job: kube.Job{Phase: kube.JobSucceeded}, results: []check.VerifyResult{good}},
		"of wk1 failed: wrong sum":      {Job: kube.Job{Phase: kube.JobSucceeded}, results: []check.VerifyResult{bad}},
		"no results":                    {Job: kube.Job{Phase: kube.JobFailed}, problem: errors.New("no results")},
		"the job failed: no such image": {Job: kube.Job{Phase: kube.JobFailed, Reason: "no such image"}},
		"requested 1 GPUs, but 0":       {Job: kube.Job{Phase: kube.JobSucceeded}},
	} {
		if err := s.verdict(n); want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, want)
		}
	}
}

// What a Job lacks is said with its reason, if there is one.
func TestDiffOfAJob(t *testing.T) {
	step := (&Verification{}).step(&verifiedPart{})
	for want, j := range map[string]kube.Job{
		"pending: no GPU": {Phase: kube.JobPending, Reason: "no GPU"}, "missing": {Phase: kube.JobMissing},
	} {
		assert.Equal(t, want, step.Diff(jobState{Job: j})[0].Have)
	}
	assert.Empty(t, step.Diff(jobState{Job: kube.Job{Phase: kube.JobSucceeded}}))
}
