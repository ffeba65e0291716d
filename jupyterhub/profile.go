package jupyterhub

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// resourceGPU is the name of a GPU, or of a share of one, in NVIDIA's device plugin.
const resourceGPU = "nvidia.com/gpu"

// gpuClass is the runtime class that K3s creates for NVIDIA's runtime. Without it a container
// sees no GPU, even if it requested one.
const gpuClass = "nvidia"

// chartMemory is the chart's default guarantee of memory (values.yaml of 4.4:
// singleuser.memory.guarantee).
const chartMemory = 1 * GiB

// Profile is a choice in the hub's form.
type Profile struct {
	Name        string // stable and unique: the hub stores it with running servers
	Title       string // default Name
	Description string
	Image       string
	Default     bool // default: the first one

	CPUGuarantee, CPULimit float64 // cores; 0: none
	MemGuarantee, MemLimit Bytes   // 0: none

	GPUs         int
	GPUMemory    Bytes             // of the GPU's memory; only where GPUs are shared by MPS
	Resources    map[string]string // further extended resources, e.g. nvidia.com/mig-1g.5gb: "1"
	RuntimeClass string            // default nvidia with GPUs
	Pool         string            // of nodes; empty: any with enough resources

	Groups     []string // of users that see it; empty: all
	Env        map[string]string
	DefaultURL string // e.g. /lab
	SHM        Bytes  // of /dev/shm; 0: the hub's
}

// requests is what the scheduler counts for one server. A limit without a guarantee counts as
// one, as in Kubernetes.
type requests struct {
	cpu    float64
	memory Bytes
	gpus   int
}

func (p Profile) requests() requests {
	r := requests{cpu: or(p.CPUGuarantee, p.CPULimit), memory: or(p.MemGuarantee, p.MemLimit), gpus: p.GPUs}
	r.memory = or(r.memory, chartMemory)
	return r
}

// usesGPU says whether a server of the profile computes on a GPU or a part of one.
func (p Profile) usesGPU() bool {
	if p.GPUs > 0 {
		return true
	}
	for name := range p.Resources {
		if len(name) > 11 && name[:11] == "nvidia.com/" {
			return true
		}
	}
	return false
}

func (p Profile) runtimeClass() string {
	if p.RuntimeClass == "" && p.usesGPU() {
		return gpuClass
	}
	return p.RuntimeClass
}

// shm is the size of /dev/shm of the profile's servers. It is memory, and counts
// towards the limit: the hub's takes at most half of it. It is 0 with MPS, whose
// plugin mounts the daemon's own /dev/shm (k8s-device-plugin v0.20
// internal/plugin/mps.go); a volume there would hide it.
func (h Hub) shm(p Profile) Bytes {
	switch {
	case p.GPUMemory > 0:
		return 0
	case p.SHM == 0 && p.MemLimit > 0:
		return min(h.SHM, p.MemLimit/2)
	}
	return or(p.SHM, h.SHM)
}

// pool returns the pool that a profile names.
func pool(pools []Pool, name string) (Pool, bool) {
	i := slices.IndexFunc(pools, func(p Pool) bool { return p.Name == name })
	if name == "" || i < 0 {
		return Pool{}, false
	}
	return pools[i], true
}

// tolerations returns the taints that the profile's servers tolerate: those of its pool, or,
// if it names none and needs a GPU, those of every pool with GPUs. A profile without GPUs
// tolerates none.
func (p Profile) tolerations(pools []Pool) []corev1.Toleration {
	var taints []corev1.Taint
	chosen, named := pool(pools, p.Pool)
	for _, in := range pools {
		// Nodes with the same pool's labels may differ in taints, and then are several pools
		// here.
		if named && subset(chosen.Labels, in.Labels) || !named && (p.GPUs > 0 && in.gpus() > 0 || in.has(p.amounts())) {
			taints = append(taints, in.Taints...)
		}
	}
	return tolerate(taints)
}

// tolerate returns tolerations for taints, each once.
func tolerate(taints []corev1.Taint) []corev1.Toleration {
	var all []corev1.Toleration
	for _, t := range taints {
		bear := corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpEqual, Value: t.Value, Effect: t.Effect}
		if t.Value == "" {
			bear.Operator = corev1.TolerationOpExists
		}
		if !slices.Contains(all, bear) {
			all = append(all, bear)
		}
	}
	return all
}

// entry renders the profile for kubespawner's profile_list. Every key of the override is a
// trait of KubeSpawner; dictionaries are merged with the hub's own (kubespawner 7.1
// spawner.py, _apply_overrides).
func (h Hub) entry(p Profile) map[string]any {
	override := map[string]any{"image": p.Image}
	h.putSizes(p, override)
	h.putPlace(p, override)
	h.putVolumes(p, override)
	if env := p.env(); len(env) > 0 {
		override["environment"] = env
	}
	if p.DefaultURL != "" {
		override["default_url"] = p.DefaultURL
	}
	if h.waits(p) {
		override["extra_labels"] = map[string]any{queueLabel: h.Queue}
	}
	e := map[string]any{"slug": p.Name, "display_name": or(p.Title, p.Name), "kubespawner_override": override}
	if p.Description != "" {
		e["description"] = p.Description
	}
	if p.Default {
		e["default"] = true
	}
	return e
}

func (h Hub) putSizes(p Profile, override map[string]any) {
	r := p.requests()
	if r.cpu > 0 {
		override["cpu_guarantee"] = r.cpu
	}
	if p.CPULimit > 0 {
		override["cpu_limit"] = p.CPULimit
	}
	override["mem_guarantee"] = r.memory.spawner()
	if p.MemLimit > 0 {
		override["mem_limit"] = p.MemLimit.spawner()
	}
	extra := map[string]any{}
	if p.GPUs > 0 {
		extra[resourceGPU] = strconv.Itoa(p.GPUs)
	}
	for name, amount := range p.Resources {
		extra[name] = amount
	}
	if len(extra) > 0 { // requests of extended resources must equal their limits
		override["extra_resource_limits"] = extra
		override["extra_resource_guarantees"] = maps.Clone(extra)
	}
}

func (h Hub) putPlace(p Profile, override map[string]any) {
	if in, ok := pool(h.Pools, p.Pool); ok && len(in.Labels) > 0 {
		override["node_selector"] = texts(in.Labels)
	}
	if bear := p.tolerations(h.Pools); len(bear) > 0 {
		override["tolerations"] = tolerationValues(bear)
	}
	if class := p.runtimeClass(); class != "" {
		override["extra_pod_config"] = map[string]any{"runtimeClassName": class}
	}
}

func (h Hub) putVolumes(p Profile, override map[string]any) {
	volumes, mounts := map[string]any{}, map[string]any{}
	if size := h.shm(p); size > 0 {
		volumes["shm"] = map[string]any{"name": "shm", "emptyDir": map[string]any{"medium": "Memory", "sizeLimit": size.String()}}
		mounts["shm"] = map[string]any{"name": "shm", "mountPath": "/dev/shm"}
	}
	if h.scratch(p) {
		h.Scratch.put(volumes, mounts)
	}
	if len(volumes) > 0 {
		override["volumes"], override["volume_mounts"] = volumes, mounts
	}
}

func (p Profile) env() map[string]any {
	env := texts(p.Env)
	if p.GPUMemory > 0 {
		// In MiB, for the one device that the container sees. It cannot exceed the daemon's
		// own limit, an equal part for each share.
		env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = fmt.Sprintf("0=%dM", p.GPUMemory/MiB)
	}
	if p.runtimeClass() == gpuClass && !p.usesGPU() {
		// Many images set this to "all", and NVIDIA's runtime obeys.
		env["NVIDIA_VISIBLE_DEVICES"] = "void"
	}
	return env
}

func texts(in map[string]string) map[string]any {
	out := make(map[string]any, len(in))
	for k, v := range in {
		out[k] = v
	}
	return out
}

func tolerationValues(all []corev1.Toleration) []any {
	out := make([]any, 0, len(all))
	for _, t := range all {
		v := map[string]any{"operator": string(or(t.Operator, corev1.TolerationOpEqual))}
		if t.Key != "" {
			v["key"] = t.Key
		}
		if t.Value != "" {
			v["value"] = t.Value
		}
		if t.Effect != "" {
			v["effect"] = string(t.Effect)
		}
		out = append(out, v)
	}
	return out
}
