package kube_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/kube"
)

// items is a list of the API.
func items(list ...string) string { return `{"items": [` + strings.Join(list, ", ") + `]}` }

// pod is one in namespace default, with more fields.
func pod(name, meta, spec, status string) string {
	return fmt.Sprintf(`{"metadata": {"name": %q, "namespace": "default"%s}, "spec": {%s}, "status": {%s}}`, name, meta, spec, status)
}

const (
	jobPath   = "GET /apis/batch/v1/namespaces/default/jobs/j"
	podsPath  = "GET /api/v1/namespaces/default/pods"
	eventPath = "GET /api/v1/namespaces/default/events"
)

func TestJobState(t *testing.T) {
	made := func(n int) string { return fmt.Sprintf(`, "creationTimestamp": "2026-11-22T03:04:%02dZ"`, n) }
	ended := func(container string, code int, message string) string {
		return fmt.Sprintf(`"phase": "Failed", "containerStatuses": [{"name": "side", "state": {"terminated": {"exitCode": 0}}}, {"name": %q, "state": {"terminated": {"exitCode": %d, "message": %q}}}]`, container, code, message)
	}
	const failed = `{"status": {"conditions": [{"type": "FailureTarget", "status": "True"}, {"type": "Complete", "status": "False"}, {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}]}}`
	const complete = `{"status": {"conditions": [{"type": "Failed", "status": "False", "reason": "No"}, {"type": "Complete", "status": "True"}]}}`
	warning := func(n int, words string) string {
		return fmt.Sprintf(`{"reason": "FailedCreate", "message": %q, "lastTimestamp": "2026-11-22T03:04:%02dZ"}`, words, n)
	}
	unschedulable := `"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]`
	for name, c := range map[string]struct {
		job, pods, events string
		want              kube.Job
	}{
		"complete":         {complete, items(pod("a", "", `"nodeName": "wk1"`, `"phase": "Running"`), pod("b", "", `"nodeName": "wk2"`, ``), pod("c", "", `"nodeName": "wk1"`, ``)), "", kube.Job{Phase: kube.JobSucceeded, Nodes: []string{"wk1", "wk2"}}},
		"failed, no pods":  {failed, items(), "", kube.Job{Phase: kube.JobFailed, Reason: "BackoffLimitExceeded: too often"}},
		"failed, its pod":  {failed, items(pod("a", "", `"nodeName": "wk1"`, ended("main", 3, " boom \n"))), "", kube.Job{Phase: kube.JobFailed, Reason: "pod a on wk1 ended with exit status 3: boom", Nodes: []string{"wk1"}}},
		"failed, no words": {failed, items(pod("a", "", `"nodeName": "wk1"`, ended("main", 137, ""))), "", kube.Job{Phase: kube.JobFailed, Reason: "pod a on wk1 ended with exit status 137", Nodes: []string{"wk1"}}},
		"failed, the last pod counts": {failed, items(pod("b", made(2), `"nodeName": "wk2"`, ended("main", 2, "second")), pod("a", made(1), `"nodeName": "wk1"`, ended("main", 1, "first")), pod("c", made(3), "", `"phase": "Succeeded"`)), "",
			kube.Job{Phase: kube.JobFailed, Reason: "pod b on wk2 ended with exit status 2: second", Nodes: []string{"wk1", "wk2"}}},
		"failed, pods of one second": {failed, items(pod("b", made(1), `"nodeName": "wk2"`, ended("main", 2, "b")), pod("a", made(1), `"nodeName": "wk1"`, ended("main", 1, "a"))), "",
			kube.Job{Phase: kube.JobFailed, Reason: "pod b on wk2 ended with exit status 2: b", Nodes: []string{"wk1", "wk2"}}},
		"failed, evicted":       {failed, items(pod("a", "", "", `"phase": "Failed", "reason": "Evicted", "message": "disk"`)), "", kube.Job{Phase: kube.JobFailed, Reason: "pod a: Evicted: disk"}},
		"failed, pods are well": {failed, items(pod("a", "", "", `"phase": "Succeeded"`)), "", kube.Job{Phase: kube.JobFailed, Reason: "BackoffLimitExceeded: too often"}},
		"runs":                  {"{}", items(pod("a", "", "", unschedulable), pod("b", "", "", `"phase": "Running"`)), "", kube.Job{Phase: kube.JobActive}},
		"waits":                 {"{}", items(pod("a", "", "", unschedulable), pod("b", "", "", `"phase": "Pending"`)), "", kube.Job{Phase: kube.JobPending, Reason: "Unschedulable: 0/1 nodes"}},
		"waits for pods":        {"{}", items(), items(warning(1, "old"), warning(3, "quota"), warning(2, "older")), kube.Job{Phase: kube.JobPending, Reason: "FailedCreate: quota"}},
		"waits, silently":       {"{}", items(), items(), kube.Job{Phase: kube.JobPending}},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]any{jobPath: c.job, podsPath: c.pods}
			if c.events != "" {
				answers[eventPath] = c.events
			}
			client, s := scripted(t, answers)
			got, err := client.JobState(t.Context(), "default", "j")
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.want.Phase == kube.JobSucceeded || c.want.Phase == kube.JobFailed, got.Ended())
			seen := s.all()
			assert.Equal(t, []string{"batch.kubernetes.io/job-name=j"}, seen[1].query["labelSelector"])
			assert.Equal(t, c.events != "", len(seen) > 2)
			if c.events != "" {
				assert.Equal(t, []string{"involvedObject.kind=Job,involvedObject.name=j,type=Warning"}, seen[2].query["fieldSelector"])
			}
		})
	}
	client, _ := scripted(t, map[string]any{jobPath: "{}", podsPath: items(), eventPath: refusal(403, "no")})
	_, err := client.JobState(t.Context(), "default", "j")
	require.EqualError(t, err, "read the events of job default/j: not allowed: no")
	client, _ = scripted(t, map[string]any{jobPath: "{}", podsPath: refusal(403, "no")})
	_, err = client.JobState(t.Context(), "default", "j")
	require.EqualError(t, err, "look at job default/j: not allowed: no")
}

// TestStateOfClaimsAndPods: an event explains what the object does not.
func TestStateOfClaimsAndPods(t *testing.T) {
	const claims = "GET /api/v1/namespaces/default/persistentvolumeclaims/c"
	const bound = `{"metadata": {"uid": "u"}, "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}`
	c, s := scripted(t, map[string]any{claims: bound})
	claim, err := c.ClaimState(t.Context(), "default", "c")
	require.NoError(t, err)
	assert.Equal(t, kube.Claim{Found: true, UID: "u", Bound: true, Volume: "pv"}, claim)
	assert.Len(t, s.calls(), 1, "a bound claim needs no explanation")

	event := func(n int, words string) string {
		return fmt.Sprintf(`{"reason": "Says", "message": %q, "lastTimestamp": "2026-11-22T03:04:%02dZ"}`, words, n)
	}
	c, s = scripted(t, map[string]any{claims: `{"status": {"phase": "Pending"}}`, eventPath: []answer{{body: items()}, {body: items(event(1, "one"), event(3, "three"), event(2, "two"))}}})
	claim, err = c.ClaimState(t.Context(), "default", "c")
	require.NoError(t, err)
	assert.Equal(t, kube.Claim{Found: true, Reason: "Says: three"}, claim)
	assert.Equal(t, []string{"involvedObject.kind=PersistentVolumeClaim,involvedObject.name=c"}, s.all()[2].query["fieldSelector"])
	c, _ = scripted(t, map[string]any{claims: `{}`, eventPath: items()})
	claim, err = c.ClaimState(t.Context(), "default", "c")
	require.NoError(t, err)
	assert.Equal(t, kube.Claim{Found: true}, claim)
	c, _ = scripted(t, map[string]any{claims: `{}`, eventPath: []answer{{body: items()}, refusal(403, "no")}})
	_, err = c.ClaimState(t.Context(), "default", "c")
	require.EqualError(t, err, "read the events of persistentvolumeclaim default/c: not allowed: no")
	c, _ = scripted(t, map[string]any{claims: refusal(403, "no")})
	_, err = c.ClaimState(t.Context(), "default", "c")
	require.EqualError(t, err, "look at claim default/c: not allowed: no")

	const podPath = "GET /api/v1/namespaces/default/pods/p"
	creating := `"phase": "Pending", "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}]`
	for _, p := range []struct {
		status, events string
		want           kube.Pod
	}{
		{`"phase": "Pending"`, items(event(1, "no mount")), kube.Pod{Found: true, Phase: "Pending", Node: "wk1", Reason: "Says: no mount"}},
		{creating, items(event(1, "no mount")), kube.Pod{Found: true, Phase: "Pending", Node: "wk1", Reason: "Says: no mount"}},
		{creating, items(), kube.Pod{Found: true, Phase: "Pending", Node: "wk1", Reason: "container c: ContainerCreating"}},
		{`"phase": "Pending", "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]`, "", kube.Pod{Found: true, Phase: "Pending", Node: "wk1", Reason: "container c: ImagePullBackOff"}},
		{`"phase": "Running"`, "", kube.Pod{Found: true, Phase: "Running", Node: "wk1"}},
		{`"phase": "Succeeded"`, "", kube.Pod{Found: true, Phase: "Succeeded", Node: "wk1"}},
	} {
		answers := map[string]any{podPath: pod("p", "", `"nodeName": "wk1"`, p.status)}
		if p.events != "" {
			answers[eventPath] = p.events
		}
		c, s := scripted(t, answers)
		got, err := c.PodState(t.Context(), "default", "p")
		require.NoError(t, err)
		assert.Equal(t, p.want, got)
		assert.Equal(t, p.want.Phase == "Succeeded", got.Ended())
		assert.Equal(t, p.events != "", len(s.calls()) > 1)
	}
	c, _ = scripted(t, map[string]any{podPath: pod("p", "", "", creating), eventPath: refusal(403, "no")})
	_, err = c.PodState(t.Context(), "default", "p")
	require.EqualError(t, err, "read the events of pod default/p: not allowed: no")
	c, _ = scripted(t, map[string]any{podPath: refusal(403, "no")})
	_, err = c.PodState(t.Context(), "default", "p")
	require.EqualError(t, err, "look at pod default/p: not allowed: no")
}

// TestWhatPodsTake: the sum of the containers that run side by side, or the most that is taken before
// them: by one that ends, and by the sidecars that were started before it and go on.
func TestWhatPodsTake(t *testing.T) {
	takes := func(n int) string { // as the API server stores it, with requests made of limits
		return fmt.Sprintf(`{"name": "c", "resources": {"requests": {"g": %d}, "limits": {"g": %[1]d}}}`, n)
	}
	const sidecar = `{"name": "s", "restartPolicy": "Always", "resources": {"requests": {"g": 5}}}`
	const odd = `{"name": "s", "restartPolicy": "OnFailure", "resources": {"requests": {"g": 4}}}`
	on := func(name, ns, node, phase, containers, init string) string {
		return fmt.Sprintf(`{"metadata": {"name": %q, "namespace": %q}, "spec": {"nodeName": %q, "containers": [%s], "initContainers": [%s]}, "status": {"phase": %q}}`, name, ns, node, containers, init, phase)
	}
	two := takes(1) + ", " + takes(2)
	c, s := scripted(t, map[string]any{"GET /api/v1/pods": items(
		on("z", "b", "wk2", "Running", two, ""), on("sum", "b", "wk1", "Running", two, takes(2)), on("most", "a", "wk1", "Pending", two, takes(7)+", "+takes(6)),
		on("car", "a", "wk1", "Running", two, sidecar+", "+takes(6)), on("odd", "c", "wk1", "Running", two, odd),
		on("none", "a", "wk1", "Running", `{"name": "c"}`, ""), on("nowhere", "a", "", "Pending", two, ""),
		on("done", "a", "wk1", "Succeeded", two, ""), on("dead", "a", "wk1", "Failed", two, ""),
		on("both", "c", "wk1", "Running", `{"name": "c", "resources": {"requests": {"g": 1}, "limits": {"g": 9}}}`, ""))})
	held, err := c.Holders(t.Context(), "g", "wk1")
	require.NoError(t, err)
	var got []string
	for _, h := range held {
		got = append(got, h.String()+" "+h.Phase)
	}
	assert.Equal(t, []string{"a/car holds 11 on wk1 Running", "a/most holds 7 on wk1 Pending", "b/sum holds 3 on wk1 Running",
		"c/both holds 1 on wk1 Running", "c/odd holds 4 on wk1 Running", "b/z holds 3 on wk2 Running"}, got)
	assert.Equal(t, []string{"spec.nodeName=wk1"}, s.all()[0].query["fieldSelector"])
	_, err = c.Holders(t.Context(), "g", "")
	require.NoError(t, err)
	assert.Empty(t, s.all()[1].query)
}

// TestWhoHoldsAnyOf: a prefix covers all resources below it, each on its own, and a notebook
// has an owner.
func TestWhoHoldsAnyOf(t *testing.T) {
	pod := func(name, notes, requests string) string {
		return fmt.Sprintf(`{"metadata": {"name": %q, "namespace": "hub", "annotations": {%s}}, "spec": {"nodeName": "wk1", "containers": [{"name": "c", "resources": {"requests": {%s}}}]}, "status": {"phase": "Running", "startTime": "2026-11-23T10:00:00Z"}}`, name, notes, requests)
	}
	c, _ := scripted(t, map[string]any{"GET /api/v1/pods": items(
		pod("jupyter-teacher", `"hub.jupyter.org/username": "teacher@lab"`, `"nvidia.com/gpu": 1, "cpu": 4`),
		pod("train", "", `"nvidia.com/mig-1g.5gb": 2, "nvidia.com/gpu": 3`), pod("cpu", "", `"cpu": 1, "nvidia.community/gpu": 1`))})
	held, err := c.Holders(t.Context(), "nvidia.com/", "")
	require.NoError(t, err)
	since := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	for i := range held {
		assert.True(t, since.Equal(held[i].Since))
		held[i].Since = time.Time{}
	}
	assert.Equal(t, []kube.Holder{
		{Namespace: "hub", Pod: "jupyter-teacher", Node: "wk1", Resource: "nvidia.com/gpu", Count: 1, Phase: "Running", User: "teacher@lab"},
		{Namespace: "hub", Pod: "train", Node: "wk1", Resource: "nvidia.com/gpu", Count: 3, Phase: "Running"},
		{Namespace: "hub", Pod: "train", Node: "wk1", Resource: "nvidia.com/mig-1g.5gb", Count: 2, Phase: "Running"},
	}, held)
}

func TestTerminationsAreSorted(t *testing.T) {
	two := func(a, b string) string {
		return fmt.Sprintf(`"containerStatuses": [{"name": %q, "state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "m"}}}, {"name": "runs", "state": {"running": {}}}, {"name": %q, "state": {"terminated": {"exitCode": 0}}}]`, a, b)
	}
	c, s := scripted(t, map[string]any{podsPath: items(pod("b", "", `"nodeName": "wk1"`, two("z", "y")), pod("a", "", "", two("x", "w")))})
	ends, err := c.PodTermination(t.Context(), "default", "app=x")
	require.NoError(t, err)
	require.Len(t, ends, 4)
	var order []string
	for _, e := range ends {
		order = append(order, e.Pod+e.Container)
	}
	assert.Equal(t, []string{"aw", "ax", "by", "bz"}, order)
	assert.Equal(t, kube.Termination{Pod: "b", Node: "wk1", Container: "z", ExitCode: 1, Reason: "Error", Message: "m"}, ends[3])
	assert.Equal(t, []string{"app=x"}, s.all()[0].query["labelSelector"])
	c, _ = scripted(t, map[string]any{podsPath: refusal(403, "no")})
	_, err = c.PodTermination(t.Context(), "default", "app=x")
	require.EqualError(t, err, "read how the pods app=x of default ended: not allowed: no")
}

func TestNodeAsItIs(t *testing.T) {
	const wk1 = `{"metadata": {"name": "wk1", "resourceVersion": "7", "creationTimestamp": "2026-11-22T01:02:03Z", "labels": {"node-role.kubernetes.io/master": ""},
		"annotations": {"homelab.cps-gpu.github.com/owned-labels": "a,b", "homelab.cps-gpu.github.com/owned-taints": "t:NoSchedule"}},
		"spec": {"unschedulable": true, "taints": [{"key": "t", "value": "v", "effect": "NoSchedule"}, {"key": "u", "effect": "NoExecute"}]},
		"status": {"nodeInfo": {"kubeletVersion": "v1", "containerRuntimeVersion": "containerd://2", "bootID": "b"}, "allocatable": {"cpu": "1500m"}, "capacity": {"cpu": "2"},
			"addresses": [{"type": "Hostname", "address": "10.0.0.1"}, {"type": "InternalIP", "address": "what"}, {"type": "InternalIP", "address": "10.0.0.2"}, {"type": "InternalIP", "address": "10.0.0.3"}],
			"conditions": [{"type": "MemoryPressure", "status": "False", "lastHeartbeatTime": "2026-11-22T03:00:00Z"}, {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-22T02:00:00Z"}, {"type": "PIDPressure", "status": "False", "lastHeartbeatTime": "2026-11-22T04:00:00Z"}]}}`
	c, _ := scripted(t, map[string]any{"GET /api/v1/nodes/wk1": wk1,
		"GET /api/v1/nodes": items(wk1, `{"metadata": {"name": "cp1", "labels": {"node-role.kubernetes.io/control-plane": "true"}}}`, `{"metadata": {"name": "ag1"}}`)})
	n, err := c.Node(t.Context(), "wk1")
	require.NoError(t, err)
	assert.True(t, n.Ready)
	assert.Empty(t, n.Reason)
	assert.Equal(t, "server", n.Role)
	assert.Equal(t, "v1 containerd://2 b", n.Version+" "+n.Runtime+" "+n.BootID)
	assert.Equal(t, "10.0.0.2", n.InternalIP.String())
	assert.True(t, n.Cordoned)
	assert.Equal(t, "02:00:00", n.Reported.UTC().Format(time.TimeOnly))
	assert.Equal(t, "01:02:03", n.Created.UTC().Format(time.TimeOnly))
	assert.Equal(t, []kube.Taint{{Key: "t", Value: "v", Effect: "NoSchedule"}, {Key: "u", Effect: "NoExecute"}}, n.Taints)
	assert.Equal(t, []string{"a", "b"}, n.OwnedLabels)
	assert.Equal(t, []string{"t:NoSchedule"}, n.OwnedTaints)
	assert.EqualValues(t, 2, n.Count("cpu"), "rounded up")
	assert.Zero(t, n.Count("none"))
	all, err := c.Nodes(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 3)
	assert.Equal(t, "ag1 agent cp1 server wk1 server", all[0].Name+" "+all[0].Role+" "+all[1].Name+" "+all[1].Role+" "+all[2].Name+" "+all[2].Role)
	assert.Nil(t, all[0].OwnedLabels)
	assert.False(t, all[0].InternalIP.IsValid())
	assert.Equal(t, "its kubelet has not reported yet", all[0].Reason)
}

// TestMarkIsTriedAgainWhenKubeletsAreQuicker: with what the node is by then, eight times.
func TestMarkIsTriedAgainWhenKubeletsAreQuicker(t *testing.T) {
	const node = "/api/v1/nodes/wk1"
	at := func(version string) answer {
		return answer{body: `{"metadata": {"name": "wk1", "resourceVersion": "` + version + `", "annotations": {"homelab.cps-gpu.github.com/owned-labels": "old"}},
			"spec": {"taints": [{"key": "theirs", "effect": "NoSchedule"}, {"key": "ours", "value": "old", "effect": "NoSchedule"}]}}`}
	}
	marks := kube.Marks{Labels: map[string]string{"pool": "gpu"}, Taints: []kube.Taint{{Key: "ours", Effect: "NoSchedule"}}}
	c, s := scripted(t, map[string]any{"GET " + node: []answer{at("1"), at("2")}, "PATCH " + node: []answer{refusal(409, "newer"), {body: "{}"}}})
	require.NoError(t, c.Mark(t.Context(), "wk1", marks))
	assert.Equal(t, []string{"GET " + node, "PATCH " + node, "GET " + node, "PATCH " + node}, s.calls())
	assert.JSONEq(t, `{"metadata": {"resourceVersion": "2", "labels": {"old": null, "pool": "gpu"}, "annotations":
		{"homelab.cps-gpu.github.com/owned-labels": "pool", "homelab.cps-gpu.github.com/owned-taints": "ours:NoSchedule"}},
		"spec": {"taints": [{"key": "theirs", "effect": "NoSchedule"}, {"key": "ours", "effect": "NoSchedule"}]}}`, s.all()[3].body)

	c, s = scripted(t, map[string]any{"GET " + node: at("1"), "PATCH " + node: refusal(409, "newer")})
	require.ErrorIs(t, c.Mark(t.Context(), "wk1", marks), kube.ErrConflict)
	assert.Len(t, s.calls(), 16)
	c, s = scripted(t, map[string]any{"GET " + node: at("1"), "PATCH " + node: refusal(403, "no")})
	require.EqualError(t, c.Mark(t.Context(), "wk1", marks), "mark node wk1: not allowed: no")
	assert.Len(t, s.calls(), 2)
	c, s = scripted(t, nil)
	require.ErrorContains(t, c.Mark(t.Context(), "wk1", kube.Marks{Labels: map[string]string{"a b": ""}}), "mark node wk1: label a b=: ")
	assert.Empty(t, s.calls())
}

// TestAPIs: of servers that answer with all at once, and of older ones.
func TestAPIs(t *testing.T) {
	all := `{"items": [{"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [{"responseKind": {"kind": "Deployment"}}, {"responseKind": {"kind": "DaemonSet"}}]}, {"version": "v1beta1"}]},
		{"metadata": {}, "versions": [{"version": "v1", "resources": [{"responseKind": {"kind": "Pod"}}]}]}]}`
	c, s := scripted(t, map[string]any{"GET /api": `{"items": [{"versions": [{"version": "v1", "resources": [{"responseKind": {"kind": "Pod"}}]}]}]}`, "GET /apis": all})
	got, err := c.APIs(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"apps/v1", "apps/v1/DaemonSet", "apps/v1/Deployment", "apps/v1beta1", "v1", "v1/Pod"}, got)
	assert.Contains(t, s.all()[0].header.Get("Accept"), "as=APIGroupDiscoveryList")

	c, _ = scripted(t, map[string]any{"GET /api": `{"versions": ["v1"]}`, "GET /apis": `{"groups": [{"versions": [{"groupVersion": "apps/v1"}]}]}`})
	got, err = c.APIs(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"apps/v1", "apps/v1/DaemonSet", "apps/v1/Deployment", "apps/v1/StatefulSet", "v1", "v1/ConfigMap", "v1/Namespace",
		"v1/Node", "v1/PersistentVolume", "v1/Pod", "v1/Secret"}, got, "and parts of kinds are none")

	for want, answers := range map[string]map[string]any{
		"ask for all kinds: not allowed: no":            {"GET /api": refusal(403, "no")},
		"unexpected GroupVersion string: a/b/c":         {"GET /api": `{"versions": ["a/b/c"]}`},
		"ask for the kinds of x.io/v1: not allowed: no": {"GET /api": `{"versions": ["x.io/v1"]}`, "GET /apis/x.io/v1": refusal(403, "no")},
	} {
		c, _ := scripted(t, answers)
		_, err := c.APIs(t.Context())
		require.EqualError(t, err, want)
	}
}

// TestListSaysWhatItAsksFor: kind, namespace and selector, and that a kind has gone.
func TestListSaysWhatItAsksFor(t *testing.T) {
	c, s := scripted(t, map[string]any{podsPath: refusal(403, "no"), "GET /api/v1/nodes": refusal(403, "no"), "GET /api/v1/namespaces/default/secrets": items()})
	_, err := c.List(t.Context(), "v1", "Pod", "default", "app=x")
	require.EqualError(t, err, "list pods of namespace default: not allowed: no")
	_, err = c.List(t.Context(), "v1", "Node", "default", "")
	require.EqualError(t, err, "list nodes: not allowed: no")
	assert.Equal(t, map[string][]string{"limit": {"500"}, "labelSelector": {"app=x"}}, s.all()[0].query)
	assert.Equal(t, map[string][]string{"limit": {"500"}}, s.all()[1].query)
	_, err = c.List(t.Context(), "v1", "ConfigMap", "default", "")
	var none *kube.NoKindError
	require.ErrorAs(t, err, &none, "it was there when the kinds were asked for")
	assert.Equal(t, kube.NoKindError{APIVersion: "v1", Kind: "ConfigMap"}, *none)
	found, err := c.List(t.Context(), "v1", "Secret", "default", "")
	require.NoError(t, err)
	assert.Empty(t, found)
}
