package doctor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/cluster/doctor"
)

// A pod that runs and is not Ready is told apart by what keeps it from that.
func TestRunningPods(t *testing.T) {
	const (
		not     = `{phase: Running, conditions: [{type: Ready, status: "False", reason: ContainersNotReady, lastTransitionTime: "2026-11-23T19:30:00Z"}], containerStatuses: [{name: c, image: i, `
		is      = `{phase: Running, conditions: [{type: Ready, status: "True"}], containerStatuses: [{name: c, image: i, ready: true, state: {running: {startedAt: "2026-11-23T19:00:00Z"}}, `
		long    = `state: {running: {startedAt: "2026-11-23T19:00:00Z"}}`
		justNow = `state: {running: {startedAt: "2026-11-23T19:59:30Z"}}`
		logs    = "kubectl -n team logs p -c c"
	)
	for name, c := range map[string]struct{ status, want string }{
		"ready":             {is + `}]}`, ""},
		"without condition": {`{phase: Running}`, ""},
		"starts":            {not + `started: false, ` + justNow + `}]}`, ""},
		"startup probe": {not + `started: false, ` + long + `}]}`,
			"error pod-not-ready of pod team/p: container c runs, and its startup probe does not succeed [the probe's answer is in the evidence; the program's own words: " + logs + "]"},
		"readiness probe": {not + `started: true, ` + long + `}]}`,
			"error pod-not-ready of pod team/p: container c runs, and its readiness probe does not succeed [the probe's answer is in the evidence; the program's own words: " + logs + "]"},
		"crashes": {not + `restartCount: 4, ` + justNow + `, lastState: {terminated: {exitCode: 2, reason: Error}}}]}`,
			"error pod-crashing of pod team/p: container c ends again and again (4 restarts), and is not ready in between [" + logs + " --previous]"},
		"needs memory": {not + `restartCount: 4, ` + justNow + `, lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]}`,
			"error pod-crashing of pod team/p: container c needs more memory than its limit [raise its memory limit]"},
		"has failed": {not + `state: {terminated: {exitCode: 3, reason: Error}}}]}`,
			"error pod-crashing of pod team/p: container c has ended [" + logs + "]"},
		"its node was silent": {not + `ready: true, ` + long + `}]}`,
			"error pod-not-ready of pod team/p: its containers are ready, and its node's kubelet does not report it, as after a node was silent [systemctl restart k3s-agent (k3s on a server) on gpu1]"},
		"a gate": {`{phase: Running, conditions: [{type: Ready, status: "False", reason: ReadinessGatesNotReady, message: "gate x is missing"}]}`,
			"error pod-not-ready of pod team/p: a readiness gate is not met: gate x is missing [the controller that the gate belongs to (a load balancer's, for example) sets it]"},
		"restarts often": {is + `restartCount: 7, lastState: {terminated: {exitCode: 1, reason: Error, finishedAt: "2026-11-23T19:50:00Z"}}}]}`,
			"warning pod-restarting of pod team/p: container c runs, after 7 restarts, the last 10m0s ago [" + logs + " --previous]"},
		"restarted long ago":      {is + `restartCount: 7, lastState: {terminated: {exitCode: 1, reason: Error, finishedAt: "2026-11-23T12:50:00Z"}}}]}`, ""},
		"restarted with its node": {is + `restartCount: 1, lastState: {terminated: {exitCode: 255, reason: Unknown, finishedAt: "2026-11-23T19:50:00Z"}}}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := healthy()
			e.Objects["Pod"] = append(e.Objects["Pod"], object("Pod", "metadata: {name: p, namespace: team}\nspec: {nodeName: gpu1, containers: [{name: c, image: i}]}\nstatus: "+c.status+"\n"))
			var want []string
			if c.want != "" {
				want = []string{c.want}
			}
			assert.Equal(t, want, told(e))
		})
	}
}

// While a node is silent, its pods follow from it.
func TestPodsOfASilentNode(t *testing.T) {
	e := healthy()
	e.Nodes[1].Ready = false
	e.Objects["Pod"] = append(e.Objects["Pod"], object("Pod", "metadata: {name: p, namespace: team}\nspec: {nodeName: gpu1, containers: [{name: c, image: i}]}\n"+
		`status: {phase: Running, conditions: [{type: Ready, status: "False"}], containerStatuses: [{name: c, ready: true}]}`))
	assert.Equal(t, []string{
		"error node-not-ready of node gpu1: it is not ready:  [journalctl -u k3s-agent (k3s on a server) on gpu1]",
		"error pod-not-ready of pod team/p: its node gpu1 is not ready, so how the pod is, is unknown [see the finding of node gpu1] <- node-not-ready of node gpu1",
	}, told(e))
}

// What the last run said when it failed comes after what is wrong now.
func TestLastRun(t *testing.T) {
	e := healthy()
	e.LastRun = &doctor.FailedRun{Ended: now.Add(-3 * time.Minute), Failed: []doctor.FailedStep{{Name: "hub", Error: "no answer\n  within 10m\n"}, {Name: "grafana", Error: "0 of 1 ready"}}}
	e.Nodes[1].Cordoned = true
	r := doctor.Diagnose(*e)
	assert.Len(t, r.Findings, 2)
	last := r.Findings[1]
	assert.Equal(t, "last run: it failed 3m0s ago: hub, grafana", last.String())
	assert.Equal(t, []string{"hub: no answer", "  within 10m", "grafana: 0 of 1 ready"}, last.Evidence)
	assert.False(t, r.HasErrors())
}
