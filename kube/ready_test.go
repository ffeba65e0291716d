package kube_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/kube"
)

// TestNotReady has, for each kind, what it looks like and what it lacks then.
func TestNotReady(t *testing.T) {
	const (
		unseen  = "its controller has not seen it yet"
		issuer  = "cert-manager has not processed it yet"
		nothing = ""
	)
	for _, c := range []struct{ head, rest, want string }{
		{"apps/v1, kind: Deployment", `metadata: {generation: 2}, status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1}`, unseen},
		{"apps/v1, kind: Deployment", `metadata: {generation: 2}, status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, availableReplicas: 1}`, nothing},
		{"apps/v1, kind: Deployment", `metadata: {generation: 2}, status: {observedGeneration: 3, replicas: 1, updatedReplicas: 1, availableReplicas: 1}`, nothing},
		{"apps/v1, kind: Deployment", `status: {}`, "0 of 1 pods are of this version"},
		{"apps/v1, kind: Deployment", `spec: {replicas: 0}, status: {}`, nothing},
		{"apps/v1, kind: Deployment", `spec: {replicas: 3}, status: {replicas: 3, updatedReplicas: 2, availableReplicas: 3}`, "2 of 3 pods are of this version"},
		{"apps/v1, kind: Deployment", `spec: {replicas: 3}, status: {replicas: 3, updatedReplicas: 3, availableReplicas: 2}`, "2 of 3 pods are ready"},
		{"apps/v1, kind: Deployment", `spec: {replicas: 3}, status: {replicas: 5, updatedReplicas: 3, availableReplicas: 4}`, "2 pods of the previous version are still needed"},
		{"apps/v1, kind: Deployment", `spec: {replicas: 3}, status: {replicas: 4, updatedReplicas: 4, availableReplicas: 4}`, nothing},
		{"apps/v1, kind: Deployment", `spec: {replicas: 3}, status: {replicas: 3, updatedReplicas: 4, availableReplicas: 4}`, nothing},
		{"apps/v1, kind: Deployment", `status: {conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded, message: too slow}]}`, "ProgressDeadlineExceeded: too slow"},
		{"apps/v1, kind: Deployment", `status: {conditions: [{type: Progressing, status: "True", reason: ReplicaSetUpdated, message: on its way}]}`, "0 of 1 pods are of this version"},
		{"apps/v1, kind: Deployment", `status: {conditions: [{type: Available, status: "True", reason: ProgressDeadlineExceeded, message: nope}]}`, "0 of 1 pods are of this version"},
		{"apps/v1, kind: Deployment", `status: {conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: a quota}]}`, "FailedCreate: a quota"},
		{"apps/v1, kind: Deployment", `status: {conditions: [{type: ReplicaFailure, status: "False", reason: FailedCreate, message: a quota}]}`, "0 of 1 pods are of this version"},
		{"apps/v1, kind: Deployment", `status: {conditions: [{type: Available, status: "True", reason: FailedCreate, message: a quota}]}`, "0 of 1 pods are of this version"},
		{"apps/v1, kind: Deployment", `metadata: {generation: 2}, status: {observedGeneration: 1, conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: a quota}]}`, unseen},

		{"apps/v1, kind: StatefulSet", `metadata: {generation: 2}, status: {observedGeneration: 1, updatedReplicas: 1, readyReplicas: 1}`, unseen},
		{"apps/v1, kind: StatefulSet", `metadata: {generation: 2}, status: {observedGeneration: 2, updatedReplicas: 1, readyReplicas: 1}`, nothing},
		{"apps/v1, kind: StatefulSet", `status: {}`, "0 of 1 pods are of this version"},
		{"apps/v1, kind: StatefulSet", `spec: {replicas: 0}, status: {}`, nothing},
		{"apps/v1, kind: StatefulSet", `spec: {replicas: 2}, status: {updatedReplicas: 2, readyReplicas: 1}`, "1 of 2 pods are ready"},

		{"apps/v1, kind: StatefulSet", `spec: {replicas: 2, updateStrategy: {type: OnDelete}}, status: {updatedReplicas: 0, readyReplicas: 1}`, "1 of 2 pods are ready"},
		{"apps/v1, kind: StatefulSet", `spec: {replicas: 2, updateStrategy: {type: OnDelete}}, status: {updatedReplicas: 0, readyReplicas: 2}`, nothing},
		{"apps/v1, kind: StatefulSet", `spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}}}, status: {updatedReplicas: 0, readyReplicas: 3}`, "2 of 3 pods are of this version"},
		{"apps/v1, kind: StatefulSet", `spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}}}, status: {updatedReplicas: 1, readyReplicas: 3}`, nothing},

		{"apps/v1, kind: DaemonSet", `spec: {updateStrategy: {type: OnDelete}}, status: {desiredNumberScheduled: 4, updatedNumberScheduled: 1, numberReady: 4}`, nothing},
		{"apps/v1, kind: DaemonSet", `metadata: {generation: 2}, status: {observedGeneration: 1}`, unseen},
		{"apps/v1, kind: DaemonSet", `metadata: {generation: 2}, status: {observedGeneration: 2}`, nothing},
		{"apps/v1, kind: DaemonSet", `status: {desiredNumberScheduled: 4, updatedNumberScheduled: 3, numberReady: 4}`, "3 of 4 pods are of this version"},
		{"apps/v1, kind: DaemonSet", `status: {desiredNumberScheduled: 4, updatedNumberScheduled: 4, numberReady: 3}`, "3 of 4 pods are ready"},
		{"apps/v1, kind: DaemonSet", `status: {desiredNumberScheduled: 4, updatedNumberScheduled: 4, numberReady: 4}`, nothing},

		{"batch/v1, kind: Job", `status: {active: 1}`, "it has not ended yet"},
		{"batch/v1, kind: Job", `status: {conditions: [{type: Complete, status: "False"}, {type: Complete, status: "True"}]}`, nothing},
		{"batch/v1, kind: Job", `status: {conditions: [{type: Suspended, status: "True"}, {type: Failed, status: "True", reason: BackoffLimitExceeded, message: again and again}]}`, "it has failed: BackoffLimitExceeded: again and again"},

		{"v1, kind: Pod", `status: {phase: Running, conditions: [{type: Ready, status: "True"}]}`, nothing},
		{"v1, kind: Pod", `status: {phase: Running, conditions: [{type: Ready, status: "False"}]}`, "it is not ready yet"},
		{"v1, kind: Pod", `status: {phase: Running, conditions: [{type: Initialized, status: "True"}]}`, "it is not ready yet"},
		{"v1, kind: Pod", `status: {phase: Succeeded, conditions: [{type: Ready, status: "False"}]}`, nothing},
		{"v1, kind: Pod", `status: {phase: Failed, reason: Evicted, message: the disk is full}`, "Evicted: the disk is full"},
		{"v1, kind: Pod", `status: {phase: Running, reason: Evicted, message: the disk is full}`, "it is not ready yet"},
		{"v1, kind: Pod", `status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: 0/1 nodes}]}`, "Unschedulable: 0/1 nodes"},
		{"v1, kind: Pod", `status: {phase: Pending, conditions: [{type: PodScheduled, status: "True", reason: Unschedulable}, {type: Initialized, status: "False", reason: Waits}]}`, "it is not ready yet"},
		{"v1, kind: Pod", `status: {phase: Pending, initContainerStatuses: [{name: first, state: {waiting: {reason: ImagePullBackOff}}}], containerStatuses: [{name: main, state: {waiting: {reason: PodInitializing}}}]}`, "container first: ImagePullBackOff"},
		{"v1, kind: Pod", `status: {phase: Pending, containerStatuses: [{name: a, state: {running: {}}}, {name: b, state: {waiting: {}}}, {name: c, state: {waiting: {reason: CrashLoopBackOff, message: back-off 10s}}}]}`, "container c: CrashLoopBackOff: back-off 10s"},

		{"v1, kind: Node", `status: {conditions: [{type: DiskPressure, status: "False", reason: Fine}, {type: Ready, status: "True"}]}`, nothing},
		{"v1, kind: Node", `status: {conditions: [{type: Ready, status: "False", reason: KubeletNotReady, message: no network}]}`, "KubeletNotReady: no network"},
		{"v1, kind: Node", `status: {conditions: [{type: Ready, status: Unknown, lastTransitionTime: "2026-11-22T03:04:05Z"}]}`, "its kubelet has not reported since 03:04:05"},
		{"v1, kind: Node", `status: {}`, "its kubelet has not reported yet"},

		{"v1, kind: PersistentVolumeClaim", `status: {phase: Bound}`, nothing},
		{"v1, kind: PersistentVolumeClaim", `status: {phase: Pending}`, "no volume is bound to it yet"},

		{"apiextensions.k8s.io/v1, kind: CustomResourceDefinition", `status: {conditions: [what, {type: NamesAccepted, status: "True", reason: NoConflicts}, {type: Established, status: "True"}]}`, nothing},
		{"apiextensions.k8s.io/v1, kind: CustomResourceDefinition", `status: {conditions: [{type: NamesAccepted, status: "False", reason: Taken, message: by another}]}`, "it is not established: Taken: by another"},
		{"apiextensions.k8s.io/v1, kind: CustomResourceDefinition", `status: {conditions: [{type: NamesAccepted, status: "True", reason: NoConflicts}, {type: Established, status: "False", reason: Installing}]}`, "it is not established yet"},
		{"apiextensions.k8s.io/v1, kind: CustomResourceDefinition", `spec: {}`, "it is not established yet"},

		{"cert-manager.io/v1, kind: ClusterIssuer", `status: {conditions: [what, {type: Other, status: "True"}, {type: Ready, status: "True"}]}`, nothing},
		{"cert-manager.io/v1, kind: Issuer", `status: {conditions: [{type: Ready, status: "False", reason: ErrInitIssuer, message: no such secret}]}`, "ErrInitIssuer: no such secret"},
		{"cert-manager.io/v1, kind: Certificate", `status: {conditions: [{type: Issuing, status: "True"}]}`, issuer},
		{"cert-manager.io/v1, kind: Certificate", `status: {conditions: [{type: Issuing, status: "False", reason: Failed, message: too many}, {type: Ready, status: "False", reason: DoesNotExist, message: no secret}]}`, "Failed: too many"},
		{"cert-manager.io/v1, kind: Certificate", `status: {conditions: [{type: Issuing, status: "True", reason: DoesNotExist, message: asking}, {type: Ready, status: "False", reason: DoesNotExist, message: no secret}]}`, "DoesNotExist: no secret"},
		{"cert-manager.io/v1, kind: Certificate", `status: {conditions: [{type: Issuing, status: "False", reason: Failed, message: too many}, {type: Ready, status: "True"}]}`, nothing},
		{"cert-manager.io/v1, kind: Certificate", `spec: {}`, issuer},
		{"other.io/v1, kind: Certificate", `spec: {}`, nothing},

		{"apiregistration.k8s.io/v1, kind: APIService", `status: {conditions: [{type: Available, status: "True", reason: Passed}]}`, nothing},
		{"apiregistration.k8s.io/v1, kind: APIService", `status: {conditions: [{type: Available, status: "False", reason: FailedDiscoveryCheck, message: no route}]}`, "it is not available yet: FailedDiscoveryCheck: no route"},
		{"apiregistration.k8s.io/v1, kind: APIService", `spec: {}`, "it is not available yet"},
		{"kueue.x-k8s.io/v1beta2, kind: ClusterQueue", `status: {conditions: [{type: Active, status: "True", reason: Ready}]}`, nothing},
		{"kueue.x-k8s.io/v1beta2, kind: ClusterQueue", `status: {conditions: [{type: Active, status: "False", reason: FlavorNotFound, message: no homelab}]}`, "FlavorNotFound: no homelab"},
		{"kueue.x-k8s.io/v1beta2, kind: LocalQueue", `spec: {}`, "its controller has not seen it yet"},
		{"postgresql.cnpg.io/v1, kind: Cluster", `spec: {instances: 2}`, "its controller has not seen it yet"},
		{"postgresql.cnpg.io/v1, kind: Cluster", `spec: {instances: 2}, status: {readyInstances: 1, phase: Creating a new replica, conditions: [{type: Ready, status: "False"}]}`, "1 of 2 servers are ready: Creating a new replica"},
		{"postgresql.cnpg.io/v1, kind: Cluster", `spec: {instances: 2}, status: {readyInstances: 1, phase: Cluster in healthy state, conditions: [{type: Ready, status: "True"}]}`, "1 of 2 servers are ready: Cluster in healthy state"},
		{"postgresql.cnpg.io/v1, kind: Cluster", `spec: {instances: 2}, status: {readyInstances: 2, phase: Cluster in healthy state, conditions: [{type: Ready, status: "True"}]}`, nothing},
		{"postgresql.cnpg.io/v1, kind: Cluster", `spec: {instances: 2}, status: {readyInstances: 2, phase: Cluster in healthy state, conditions: [{type: Ready, status: "True"}, {type: ContinuousArchiving, status: "True", reason: ContinuousArchivingSuccess}]}`, nothing},
		{"postgresql.cnpg.io/v1, kind: Cluster", `spec: {instances: 2}, status: {readyInstances: 2, phase: Cluster in healthy state, conditions: [{type: Ready, status: "True"}, {type: ContinuousArchiving, status: "False", reason: ContinuousArchivingFailing}]}`, nothing},
		{"postgresql.cnpg.io/v1, kind: Cluster", `spec: {instances: 2, plugins: [{name: a}]}, status: {readyInstances: 2, phase: Cluster in healthy state, conditions: [{type: Ready, status: "True"}, {type: ContinuousArchiving, status: "False", reason: ContinuousArchivingFailing, message: exit status 1}]}`,
			"its changes do not get into the bucket: the store does not answer, or the folder has those of another database: ContinuousArchivingFailing: exit status 1"},
		{"postgresql.cnpg.io/v1, kind: ScheduledBackup", `status: {error: no such cluster}`, "no such cluster"},
		{"postgresql.cnpg.io/v1, kind: ScheduledBackup", `spec: {}`, nothing},

		{"v1, kind: ConfigMap", `data: {a: b}`, nothing},
		{"v1, kind: ConfigMap", `metadata: {deletionTimestamp: "2026-11-22T03:04:05Z"}`, "it is being deleted"},
	} {
		live := decode(t, "{apiVersion: "+c.head+", "+c.rest+"}")[0].(*unstructured.Unstructured)
		got, err := kube.NotReadyReason(live)
		require.NoError(t, err, "%s: %s", c.head, c.rest)
		assert.Equal(t, c.want, got, "%s: %s", c.head, c.rest)
	}
}

// TestReadyOfWhatCannotBeRead: an answer that fits its kind in no way is an error, and names the object.
func TestReadyOfWhatCannotBeRead(t *testing.T) {
	web := decode(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}")[0]
	c, s := scripted(t, map[string]any{"GET /apis/apps/v1/namespaces/default/deployments/web": []answer{
		{body: `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": "many"}}`},
		refusal(404, "no"), refusal(403, "you may not"),
		{body: `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 0}}`},
	}})
	_, ok, err := c.Ready(t.Context(), web)
	require.ErrorContains(t, err, "look at deployment web: ")
	assert.False(t, ok)
	reason, ok, err := c.Ready(t.Context(), web)
	require.NoError(t, err)
	assert.False(t, ok)
	assert.Equal(t, "deployment web is not there yet", reason)
	reason, ok, err = c.Ready(t.Context(), web)
	require.EqualError(t, err, "read deployment default/web: not allowed: you may not")
	assert.False(t, ok)
	assert.Empty(t, reason)
	reason, ok, err = c.Ready(t.Context(), web)
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Empty(t, reason)
	assert.Len(t, s.calls(), 4)

	_, ok, err = c.Ready(t.Context(), &unstructured.Unstructured{Object: map[string]any{}})
	require.Error(t, err)
	assert.False(t, ok)
}
