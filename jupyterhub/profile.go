package jupyterhub

import (
	"cmp"
	"fmt"
	"html"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/nvidia"
)

// chartMemory is the chart's default guarantee of memory (values.yaml of 4.4:
// singleuser.memory.guarantee).
const chartMemory = 1 * GiB

// requests is what the scheduler counts for one server. A limit without a guarantee counts as
// one, as in Kubernetes.
type requests struct {
	cpu    float64
	memory Bytes
	disk   Bytes
	gpus   int
}

func requestsOf(p spec.HubProfile) requests {
	memory := cmp.Or(p.Memory.Guarantee, p.Memory.Limit, chartMemory)
	return requests{cpu: float64(cmp.Or(p.CPU.Guarantee, p.CPU.Limit)), memory: Bytes(memory), disk: Bytes(cmp.Or(p.EphemeralStorage.Guarantee, p.EphemeralStorage.Limit)), gpus: p.GPUs}
}

// usesGPU says whether a server of the profile computes on a GPU or a part of one.
func usesGPU(p spec.HubProfile) bool {
	return p.GPUs > 0 || p.MIG != ""
}

func runtimeClassOf(p spec.HubProfile) string {
	if p.RuntimeClass == "" && usesGPU(p) {
		return nvidia.RuntimeClass
	}
	return p.RuntimeClass
}

// shm is the size of /dev/shm of the profile's servers. It is memory, and counts
// towards the limit: the hub's takes at most half of it. It is 0 with MPS, whose
// plugin mounts the daemon's own /dev/shm (k8s-device-plugin v0.20
// internal/plugin/mps.go); a volume there would hide it.
func (h Hub) shm(p spec.HubProfile) Bytes {
	switch {
	case p.GPUMemory > 0:
		return 0
	case p.SHM == 0 && p.Memory.Limit > 0:
		return Bytes(min(h.SHM, p.Memory.Limit/2))
	}
	return Bytes(cmp.Or(p.SHM, h.SHM))
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
func tolerationsOf(p spec.HubProfile, pools []Pool) []corev1.Toleration {
	var taints []corev1.Taint
	chosen, named := pool(pools, p.Pool)
	for _, in := range pools {
		// Nodes with the same pool's labels may differ in taints, and then are several pools
		// here.
		if named && subset(chosen.Labels, in.Labels) || !named && (p.GPUs > 0 && in.gpus() > 0 || in.has(amounts(p))) {
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
func (h Hub) entry(p spec.HubProfile) map[string]any {
	override := h.override(p)
	e := map[string]any{"slug": p.Name, "display_name": html.EscapeString(cmp.Or(p.Title, p.Name)), "kubespawner_override": override}
	if p.Description != "" {
		e["description"] = html.EscapeString(p.Description)
	}
	if p.Default {
		e["default"] = true
	}
	options := map[string]any{}
	if len(p.Images) > 0 || p.OtherImages != "" {
		options["image"] = imageOption(p)
	}
	if len(p.Sizes) > 0 {
		choices := map[string]any{}
		for i, v := range spec.Variants(p) {
			choices[p.Sizes[i].Name] = choice(cmp.Or(p.Sizes[i].Title, p.Sizes[i].Name), i == 0, changes(override, h.override(v)))
		}
		options["size"] = map[string]any{"display_name": "Size", "choices": choices}
	}
	if h.SSH {
		options["ssh"] = sshOption()
	}
	if len(options) > 0 {
		e["profile_options"] = options
	}
	return e
}

func choice(title string, first bool, override map[string]any) map[string]any {
	c := map[string]any{"display_name": html.EscapeString(title), "kubespawner_override": override}
	if first {
		c["default"] = true
	}
	return c
}

// imageOption renders the choice of an image. KubeSpawner matches a text that people type from its start
// only (re.match).
func imageOption(p spec.HubProfile) map[string]any {
	choices := map[string]any{}
	for i, c := range p.Images {
		choices[c.Name] = choice(cmp.Or(c.Title, c.Name), i == 0, map[string]any{"image": c.Image})
	}
	if len(choices) == 0 {
		choices["default"] = choice(p.Image, true, map[string]any{"image": p.Image})
	}
	option := map[string]any{"display_name": "Image", "choices": choices}
	if p.OtherImages != "" {
		option["unlisted_choice"] = map[string]any{
			"enabled": true, "display_name": "Image", "display_name_in_choices": "Another image", "validation_regex": "^(?:" + p.OtherImages + ")$",
			"validation_message": html.EscapeString("An image that matches " + p.OtherImages), "kubespawner_override": map[string]any{"image": "{value}"},
		}
	}
	return option
}

// changes is what KubeSpawner has to merge into an override to get another one; nil removes a key
// (7.1 utils.py, recursive_update).
func changes(from, to map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range to {
		old, isTable := from[key].(map[string]any)
		if table, ok := value.(map[string]any); ok && isTable {
			if inner := changes(old, table); len(inner) > 0 {
				out[key] = inner
			}
		} else if !reflect.DeepEqual(from[key], value) {
			out[key] = value
		}
	}
	for key := range from {
		if _, kept := to[key]; !kept {
			out[key] = nil
		}
	}
	return out
}

// override are the traits of a profile's servers.
func (h Hub) override(p spec.HubProfile) map[string]any {
	override := map[string]any{"image": p.Image}
	putSizes(p, override)
	h.putPlace(p, override)
	h.putVolumes(p, override)
	if env := envOf(p); len(env) > 0 {
		override["environment"] = env
	}
	if p.DefaultURL != "" {
		override["default_url"] = p.DefaultURL
	}
	if cmd := h.startCommand(p); cmd != nil {
		override["cmd"] = cmd
	}
	if h.waits(p) {
		override["extra_labels"] = map[string]any{queueLabel: h.Queue}
	}
	return override
}

// startCommand runs a profile's script and packages before the server, in any image with a shell; nil: there
// are none. A script that fails says so in the log and keeps nobody from the notebook, as hooks of Jupyter's
// own images do. Kubernetes replaces $(NAME) in a command, and $$ by $ (expansion.Expand).
func (h Hub) startCommand(p spec.HubProfile) []any {
	script := p.Start
	if len(p.Packages) > 0 {
		script = "python3 -m pip install --quiet --disable-pip-version-check '" + strings.Join(p.Packages, "' '") + "'\n" + script
	}
	if script == "" && !h.SSH {
		return nil
	}
	var run string
	if h.SSH {
		run = sshRun
	}
	run += `sh -ec "$1" || echo "homelab: the start script of the profile failed with code $?" >&2; shift; exec "$@"`
	var cmd []any
	for _, arg := range []string{"sh", "-c", run, "sh", script, "jupyterhub-singleuser"} {
		cmd = append(cmd, strings.ReplaceAll(arg, "$", "$$"))
	}
	return cmd
}

func putSizes(p spec.HubProfile, override map[string]any) {
	r := requestsOf(p)
	if r.cpu > 0 {
		override["cpu_guarantee"] = r.cpu
	}
	if p.CPU.Limit > 0 {
		override["cpu_limit"] = float64(p.CPU.Limit)
	}
	override["mem_guarantee"] = r.memory.spawner()
	if p.Memory.Limit > 0 {
		override["mem_limit"] = Bytes(p.Memory.Limit).spawner()
	}
	limits := map[string]any{}
	if p.GPUs > 0 {
		limits[nvidia.Resource] = strconv.Itoa(p.GPUs)
	}
	for name, amount := range amounts(p) {
		limits[name] = strconv.Itoa(amount)
	}
	guarantees := maps.Clone(limits) // requests of extended resources must equal their limits
	if p.EphemeralStorage.Limit > 0 {
		limits["ephemeral-storage"] = Bytes(p.EphemeralStorage.Limit).String()
	}
	if r.disk > 0 {
		guarantees["ephemeral-storage"] = r.disk.String()
	}
	if len(limits) > 0 {
		override["extra_resource_limits"] = limits
	}
	if len(guarantees) > 0 {
		override["extra_resource_guarantees"] = guarantees
	}
}

func (h Hub) putPlace(p spec.HubProfile, override map[string]any) {
	if in, ok := pool(h.Pools, p.Pool); ok && len(in.Labels) > 0 {
		override["node_selector"] = texts(in.Labels)
	}
	if bear := tolerationsOf(p, h.Pools); len(bear) > 0 {
		override["tolerations"] = tolerationValues(bear)
	}
	if class := runtimeClassOf(p); class != "" {
		override["extra_pod_config"] = map[string]any{"runtimeClassName": class}
	}
}

func (h Hub) putVolumes(p spec.HubProfile, override map[string]any) {
	volumes, mounts := map[string]any{}, map[string]any{}
	if size := h.shm(p); size > 0 {
		volumes["shm"] = map[string]any{"name": "shm", "emptyDir": map[string]any{"medium": "Memory", "sizeLimit": size.String()}}
		mounts["shm"] = map[string]any{"name": "shm", "mountPath": "/dev/shm"}
	}
	if h.scratch(p) {
		putScratch(*h.Scratch, volumes, mounts)
	}
	if len(volumes) > 0 {
		override["volumes"], override["volume_mounts"] = volumes, mounts
	}
}

func envOf(p spec.HubProfile) map[string]any {
	env := texts(p.Env)
	if p.GPUMemory > 0 {
		// In MiB, for the one device that the container sees. It cannot exceed the daemon's
		// own limit, an equal part for each share.
		env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = fmt.Sprintf("0=%dM", int64(p.GPUMemory/MiB))
	}
	if runtimeClassOf(p) == nvidia.RuntimeClass && !usesGPU(p) {
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
		v := map[string]any{"operator": string(cmp.Or(t.Operator, corev1.TolerationOpEqual))}
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
