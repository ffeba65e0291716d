package images

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

func TestReferences(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"pods": {`
kind: DaemonSet
spec: {template: {spec: {initContainers: [{image: busybox}], containers: [{image: "quay.io/a/b:1"}, {image: "longhornio/x:v1@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}]}}}`,
			[]string{"docker.io/library/busybox:latest", "docker.io/longhornio/x:v1@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "quay.io/a/b:1"}},
		"what programs are told": {`
kind: Deployment
spec: {template: {spec: {containers: [{image: "localhost:5000/c:1",
  args: ["--acme-http01-solver-image=quay.io/jetstack/solver:v1.2", "--engine-image", "longhornio/longhorn-engine:v1.9.0", "--listen=0.0.0.0:8080", "--url=https://quay.io/not:this", "--name=a/b:c"],
  env: [{name: A, value: "ghcr.io/cloudnative-pg/cloudnative-pg:1.30.0"}, {name: B, value: "monitoring/prometheus:9090"}, {name: C, valueFrom: {}}]}]}}}`,
			[]string{"docker.io/longhornio/longhorn-engine:v1.9.0", "ghcr.io/cloudnative-pg/cloudnative-pg:1.30.0", "localhost:5000/c:1", "quay.io/jetstack/solver:v1.2"}},
		"configuration": {`
kind: ConfigMap
data: {config: '{"agentImage":"rancher/fleet-agent:v0.16.2","apiServerURL":"https://a.example/b:1"}', helperPod.yaml: "containers:\n- image: docker.io/rancher/busybox:1.37.0\n"}`,
			[]string{"docker.io/rancher/busybox:1.37.0", "docker.io/rancher/fleet-agent:v0.16.2"}},
		"NVIDIA's operator": {`
kind: ClusterPolicy
spec:
  driver: {enabled: true, repository: nvcr.io/nvidia, image: driver, version: "595.1", manager: {repository: nvcr.io/nvidia, image: manager, version: v1}}
  toolkit: {enabled: false, repository: nvcr.io/nvidia, image: toolkit, version: v1}
  dcgm: {enabled: true, repository: nvcr.io/nvidia, image: dcgm, version: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}
  vfioManager: {enabled: true, repository: nvcr.io/nvidia, image: vfio, version: v1}
  sandboxWorkloads: {enabled: false}`,
			[]string{"nvcr.io/nvidia/dcgm@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "nvcr.io/nvidia/driver:595.1-ubuntu24.04", "nvcr.io/nvidia/manager:v1"}},
		"virtual machines":   {"kind: ClusterPolicy\nspec: {vfioManager: {repository: r.io, image: vfio, version: v1}, sandboxWorkloads: {enabled: true}}", []string{"r.io/vfio:v1"}},
		"an example":         {"kind: CustomResourceDefinition\nspec: {image: nginx}", nil},
		"an image of a disk": {"kind: PersistentVolume\nspec: {image: csi-vol-0815 of the pool}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var object map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(c.text), &object))
			got := References(object)
			slices.Sort(got)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestFull(t *testing.T) {
	for name, want := range map[string]string{
		"busybox": "docker.io/library/busybox:latest", "rancher/k3s:v1": "docker.io/rancher/k3s:v1", "localhost/x": "localhost/x:latest",
		"a.io:5000/x@sha256:00": "a.io:5000/x@sha256:00", "a.io:5000/x": "a.io:5000/x:latest",
	} {
		assert.Equal(t, want, Full(name))
		assert.Equal(t, want, Full(Full(name)))
	}
}
