package clusterfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/platform"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// The default images of profiles, by date because quay.io/jupyter moves all other tags. Seen
// in public use in July and October 2026.
const (
	plainImage = "quay.io/jupyter/minimal-notebook:2026-10-05"
	gpuImage   = "quay.io/jupyter/pytorch-notebook:cuda12-2026-07-28"
)

func (r *resolver) hub() {
	raw := r.raw.Hub
	if raw == nil {
		return
	}
	r.hostname(&raw.Hostname, "hub")
	r.chartVersion(&raw.Version, "jupyterhub", raw.Version)
	h := &spec.Hub{
		Hostname: raw.Hostname, Version: raw.Version, Namespace: cmp.Or(raw.Namespace, "jupyterhub"),
		SHM: or(raw.SHM, 8*spec.GiB), PrePull: raw.PrePull, Isolate: or(raw.Isolate, true), Reach: raw.Reach,
	}
	if !decode.DNSLabel.MatchString(h.Namespace) || h.Namespace == "default" || strings.HasPrefix(h.Namespace, "kube-") {
		r.Wrong(&raw.Namespace, fmt.Sprintf("%q cannot be the hub's namespace", h.Namespace), "write a name of its own, e.g. jupyterhub")
	}
	r.spec.Platform.Hub = h
	r.hubDatabase(raw, h)
	r.hubAuth(raw, h)
	for _, e := range raw.Profiles {
		h.Profiles = append(h.Profiles, r.hubProfile(e.Name, e.Value))
	}
	if len(raw.Profiles) == 0 {
		h.Profiles = r.usualProfiles()
	}
	r.defaultProfile(raw, h)
	r.hubHome(raw, h)
	r.hubShares(raw, h)
	r.hubScratch(raw, h)
	r.hubCull(raw, h)
	for i, p := range raw.Reach {
		if p.IsValid() && p != p.Masked() {
			r.Wrong(&raw.Reach[i], fmt.Sprintf("%s is an address in a network, not a network", p), "write "+p.Masked().String())
		}
	}
	if !h.Isolate && len(raw.Reach) > 0 {
		r.Wrong(&raw.Reach, "notebooks are not isolated, so they reach everything", "remove reach, or isolate: false")
	}
	if q := raw.Quota; q != nil {
		h.Quota = spec.HubQuota{GPUs: or(q.GPUs, 0), CPU: float64(or(q.CPU, 0)), Memory: or(q.Memory, 0)}
		r.between(q.GPUs, &q.GPUs, "gpus", 1, 100000)
	}
}

func (r *resolver) hubDatabase(raw *decode.Hub, h *spec.Hub) {
	db := &raw.Database
	h.Database = spec.HubDatabase{
		Kind: cmp.Or(db.Kind, "sqlite"), Class: db.Class, Size: or(db.Size, spec.GiB), URL: db.URL,
	}
	if db.Kind == "" && r.IsSet(&db.URL) {
		h.Database.Kind = "postgres"
	}
	switch {
	case h.Database.Kind == "postgres" && !r.IsSet(&db.URL):
		r.Wrong(&db.URL, "postgres has no url", "write url: env:NAME, with postgresql://user:password@host/name in that variable; the database must exist")
	case h.Database.Kind == "postgres":
		h.Database.Size = 0
		for _, at := range []any{&db.Class, &db.Size} {
			if r.IsSet(at) {
				r.Wrong(at, "with postgres the hub has no volume", "remove it, or write kind: sqlite")
			}
		}
	case r.IsSet(&db.URL):
		r.Wrong(&db.URL, "url has no effect with sqlite", "remove it, or write kind: postgres")
	case h.Database.Size < 100*spec.MiB:
		r.Wrong(&db.Size, fmt.Sprintf("%s is too little for the hub's database", h.Database.Size), "write 1GiB")
	}
}

func (r *resolver) hubProfile(name string, raw *decode.HubProfile) spec.HubProfile {
	p := spec.HubProfile{
		Name: name, Title: cmp.Or(raw.Title, name), Description: raw.Description, Image: raw.Image, Default: raw.Default,
		CPULimit: float64(or(raw.CPU.Limit, 0)), MemLimit: or(raw.Memory.Limit, 0), GPUs: or(raw.GPUs, 0), GPUMemory: or(raw.GPUMemory, 0), MIG: raw.MIG,
		Pool: raw.Pool, RuntimeClass: raw.RuntimeClass, Groups: raw.Groups, Env: raw.Env, DefaultURL: raw.DefaultURL, SHM: or(raw.SHM, 0),
	}
	// Kubernetes itself uses a limit as the request if there is none.
	p.CPUGuarantee, p.MemGuarantee = float64(or(raw.CPU.Guarantee, decode.Cores(p.CPULimit))), or(raw.Memory.Guarantee, p.MemLimit)
	if p.MemGuarantee == 0 {
		p.MemGuarantee = spec.GiB
	}
	if p.Image == "" {
		p.Image = plainImage
		if p.GPUs > 0 || p.MIG != "" {
			p.Image = gpuImage
		}
	}
	if p.GPUs > 0 || p.MIG != "" {
		p.RuntimeClass = cmp.Or(p.RuntimeClass, "nvidia")
	}
	r.profileNames(raw, p)
	r.profileSizes(raw, p)
	return p
}

// imageName matches host/path:tag, or with @sha256 at the end.
const imageName = `^[a-z0-9]+([._-][a-z0-9]+)*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?(@sha256:[0-9a-f]{64})?$`

func (r *resolver) profileNames(raw *decode.HubProfile, p spec.HubProfile) {
	if !decode.DNSLabel.MatchString(p.Name) || len(p.Name) > 40 {
		r.Wrong(raw, fmt.Sprintf("%q cannot be a profile's name", p.Name), "write at most 40 lower-case letters, digits and hyphens; title: is what people read")
	}
	switch _, tag, _ := decode.CutLast(p.Image[strings.LastIndexByte(p.Image, '/')+1:], ":"); {
	case raw.Image == "":
	case !matches(imageName, p.Image):
		r.Wrong(&raw.Image, fmt.Sprintf("%q is not an image", p.Image), "write registry/path:tag, e.g. "+plainImage)
	case tag == "":
		r.Wrong(&raw.Image, fmt.Sprintf("image %s has no tag, so each node runs the image that was newest when it pulled", p.Image), "add the tag of a release, e.g. "+plainImage)
	case tag == "latest":
		r.Warn(&raw.Image, fmt.Sprintf("image %s changes over time, and may differ between nodes", p.Image), "write the tag of a release")
	}
	if raw.RuntimeClass != "" && !decode.IsDNSName(raw.RuntimeClass) {
		r.Wrong(&raw.RuntimeClass, fmt.Sprintf("%q cannot be a runtime class", raw.RuntimeClass), "write e.g. nvidia")
	}
	if p.GPUs > 0 && raw.RuntimeClass != "" && !strings.HasPrefix(raw.RuntimeClass, "nvidia") {
		r.Warn(&raw.RuntimeClass, fmt.Sprintf("K3s shows GPUs to containers of the runtime class nvidia, and this is %s", raw.RuntimeClass), "remove runtimeClass")
	}
	if raw.DefaultURL != "" && !strings.HasPrefix(raw.DefaultURL, "/") {
		r.Wrong(&raw.DefaultURL, fmt.Sprintf("%q is not a path", raw.DefaultURL), "write e.g. /lab, or /tree for the classic view")
	}
	for _, name := range sortedNames(p.Env) {
		at := r.MemberAt(&raw.Env, name)
		switch {
		case len(validation.IsCIdentifier(name)) > 0:
			r.Wrong(at, fmt.Sprintf("%q cannot be an environment variable", name), "write letters, digits and underscores")
		case decode.SecretKey.MatchString(name) && p.Env[name] != "":
			r.Wrong(at, fmt.Sprintf("%s would be in plain text in the hub's configuration, for all to read", name), "let people keep it in their home folder")
		}
	}
}

func (r *resolver) profileSizes(raw *decode.HubProfile, p spec.HubProfile) {
	r.between(raw.GPUs, &raw.GPUs, "gpus", 0, 16)
	if raw.CPU.Guarantee != nil && p.CPULimit > 0 && p.CPUGuarantee > p.CPULimit {
		r.Wrong(&raw.CPU.Guarantee, fmt.Sprintf("%s is guaranteed %g cores and limited to %g", p.Name, p.CPUGuarantee, p.CPULimit), "write a guarantee that is at most the limit")
	}
	if raw.Memory.Guarantee != nil && p.MemLimit > 0 && p.MemGuarantee > p.MemLimit {
		r.Wrong(&raw.Memory.Guarantee, fmt.Sprintf("%s is guaranteed %s of memory and limited to %s", p.Name, p.MemGuarantee, p.MemLimit), "write a guarantee that is at most the limit")
	}
	for at, c := range map[any]*decode.Cores{&raw.CPU.Guarantee: raw.CPU.Guarantee, &raw.CPU.Limit: raw.CPU.Limit} {
		if c != nil && *c <= 0 {
			r.Wrong(at, "a profile with no CPU starts nothing", "write e.g. 0.5, or leave it out")
		}
	}
	if limit := raw.Memory.Limit; limit != nil && *limit < 256*spec.MiB {
		r.Wrong(&raw.Memory.Limit, fmt.Sprintf("a notebook does not even start with %s of memory", *limit), "write 1GiB or more")
	}
	if raw.SHM != nil && p.MemLimit > 0 && *raw.SHM > p.MemLimit {
		r.Wrong(&raw.SHM, fmt.Sprintf("/dev/shm is memory, and %s of it are more than the profile's limit of %s", *raw.SHM, p.MemLimit), "write less, or a higher limit")
	}
	if p.MIG != "" && p.GPUs > 0 {
		r.Wrong(&raw.MIG, fmt.Sprintf("profile %s asks for GPUs and for an instance of one", p.Name), "keep one of gpus and mig")
	}
	if p.GPUMemory > 0 && p.GPUs != 1 {
		r.Wrong(&raw.GPUMemory, "gpuMemory is a part of one GPU that is shared", "write gpus: 1 beside it, or remove gpuMemory")
	}
}

// usualProfiles are the default profiles of a hub: small enough for any node that can run a
// notebook at all.
func (r *resolver) usualProfiles() []spec.HubProfile {
	out := []spec.HubProfile{{
		Name: "cpu", Title: "CPU", Description: "Up to 2 cores and 4 GiB", Image: plainImage,
		CPUGuarantee: 0.5, CPULimit: 2, MemGuarantee: spec.GiB, MemLimit: 4 * spec.GiB,
	}}
	if len(r.spec.GPUNodes()) > 0 && r.spec.NVIDIA.Stack != spec.StackNone {
		out = append(out, spec.HubProfile{
			Name: "gpu", Title: "1 GPU", Description: "PyTorch with CUDA, and as much CPU and memory as the node has free", Image: gpuImage,
			CPUGuarantee: 1, MemGuarantee: 4 * spec.GiB, GPUs: 1, RuntimeClass: "nvidia",
		})
		if !platform.OpenAgents(r.spec) {
			out[0].Pool = platform.OnlyGPUPool(r.spec) // preferred to servers, where etcd runs
		}
	}
	return out
}

func (r *resolver) defaultProfile(raw *decode.Hub, h *spec.Hub) {
	var first *decode.HubProfile
	for _, e := range raw.Profiles {
		if !e.Value.Default {
			continue
		}
		if first != nil {
			r.Wrong(&e.Value.Default, "there is another default profile, in "+r.Line(&first.Default), "keep one of them")
			continue
		}
		first = e.Value
	}
	if first == nil && len(h.Profiles) > 0 {
		h.Profiles[0].Default = true
	}
}

func (r *resolver) hubHome(raw *decode.Hub, h *spec.Hub) {
	home := &raw.Home
	h.Home = spec.HubHome{Class: home.Class, Size: or(home.Size, 20*spec.GiB), Claim: home.Claim, Path: cmp.Or(home.Path, "/home/jovyan"), ClaimTemplate: home.ClaimTemplate, SubPath: home.SubPath}
	if home.Claim != "" {
		h.Home.Size = 0
		for _, at := range []any{&home.Class, &home.Size} {
			if r.IsSet(at) {
				r.Wrong(at, "homes are in an existing claim", "remove it, or claim")
			}
		}
		if !decode.IsDNSName(home.Claim) {
			r.Wrong(&home.Claim, fmt.Sprintf("%q cannot be a claim", home.Claim), "write its name as kubectl get pvc shows it")
		}
	}
	if home.Size != nil && *home.Size < 100*spec.MiB {
		r.Wrong(&home.Size, fmt.Sprintf("%s is too little for a home", *home.Size), "write 10GiB or more")
	}
	if home.Claim != "" && home.ClaimTemplate != "" {
		r.Wrong(&home.ClaimTemplate, "homes are in one claim, so no other claims need names", "remove it, or claim")
	}
	if t := home.ClaimTemplate; t != "" && !strings.Contains(t, "{username}") && !strings.Contains(t, "{user_server}") && !strings.Contains(t, "{userid}") {
		r.Wrong(&home.ClaimTemplate, fmt.Sprintf("with the template %q everybody would have the same home", t), "write e.g. claim-{username}")
	}
	if p := home.SubPath; p != "" && (strings.HasPrefix(p, "/") || strings.Contains("/"+p+"/", "/../")) {
		r.Wrong(&home.SubPath, fmt.Sprintf("%q is not a folder of a volume", p), "write it without a slash before it, e.g. home/{username}")
	}
	r.inNotebook(&home.Path, h.Home.Path)
}

// inNotebook checks a mount point in notebooks.
func (r *resolver) inNotebook(at *string, p string) {
	if !decode.IsCleanPath(p) || slices.Contains([]string{"/dev", "/dev/shm", "/etc", "/opt", "/opt/conda", "/proc", "/sys", "/usr", "/tmp"}, p) {
		r.Wrong(at, fmt.Sprintf("nothing can be mounted on %q in a notebook", p), "write an absolute path of its own, e.g. /data")
	}
}

func (r *resolver) hubShares(raw *decode.Hub, h *spec.Hub) {
	var known []string
	nfs := r.spec.Platform.Storage.NFS
	if nfs != nil {
		for _, s := range nfs.Shares {
			known = append(known, s.Name)
		}
	}
	mounts := map[string]any{h.Home.Path: &raw.Home.Path}
	for _, e := range raw.Shared {
		s := e.Value
		share := spec.HubShare{Name: e.Name, Path: cmp.Or(s.Path, "/shared/"+e.Name), ReadOnly: or(s.ReadOnly, false), Groups: s.Groups}
		at := any(&s.Path)
		if !r.IsSet(at) {
			at = s
		}
		i := slices.Index(known, e.Name)
		switch {
		case len(known) == 0:
			r.Wrong(s, fmt.Sprintf("there is no share %s: storage.nfs names none", e.Name), "write storage: {nfs: {server: …, shares: {"+e.Name+": /export/"+e.Name+"}}}")
		case i < 0:
			r.Wrong(s, fmt.Sprintf("storage.nfs has no share %q", e.Name), decode.OrSuggest(e.Name, known))
		case nfs.Shares[i].ReadOnly && s.ReadOnly != nil && !*s.ReadOnly:
			r.Wrong(&s.ReadOnly, fmt.Sprintf("share %s is read-only in storage.nfs", e.Name), "remove readOnly in one of the places")
		default:
			share.ReadOnly = share.ReadOnly || nfs.Shares[i].ReadOnly
		}
		r.inNotebook(&s.Path, share.Path)
		unique(r, mounts, share.Path, at, fmt.Sprintf("%s is a mount point already", share.Path), "write another path")
		h.Shared = append(h.Shared, share)
	}
}

func (r *resolver) hubScratch(raw *decode.Hub, h *spec.Hub) {
	s := raw.Scratch
	if s == nil {
		return
	}
	h.Scratch = spec.HubScratch{Class: s.Class, Size: or(s.Size, 100*spec.GiB), Path: cmp.Or(s.Path, "/scratch")}
	if storage := r.spec.Platform.Storage.Scratch; h.Scratch.Class == "" && storage != nil {
		h.Scratch.Class = storage.Class
	}
	if h.Scratch.Class == "" {
		r.Wrong(s, "notebooks request scratch volumes, and no storage class provides them", "write storage: {scratch: true} with a scratch disk in a pool, or class: here")
	}
	if s.Size != nil && *s.Size < 100*spec.MiB {
		r.Wrong(&s.Size, fmt.Sprintf("%s is too little for scratch", *s.Size), "write 10GiB or more")
	}
	r.inNotebook(&s.Path, h.Scratch.Path)
	if h.Scratch.Path == h.Home.Path {
		r.Wrong(&s.Path, h.Home.Path+" is the home", "write another path")
	}
}

func (r *resolver) hubCull(raw *decode.Hub, h *spec.Hub) {
	c := &raw.Cull
	h.Cull = spec.HubCull{Enabled: or(c.Enabled, true), Idle: c.Idle.Or(time.Hour), MaxAge: c.MaxAge.Or(0), Every: c.Every.Or(5 * time.Minute), Exempt: c.Exempt}
	if !h.Cull.Enabled {
		for _, at := range []any{&c.Idle, &c.MaxAge, &c.Every, &c.Exempt} {
			if r.IsSet(at) {
				r.Wrong(at, "servers are never stopped, so this has no effect", "remove it, or enabled: false")
			}
		}
		h.Cull = spec.HubCull{}
		return
	}
	switch {
	case h.Cull.Idle < 5*time.Minute:
		r.Wrong(&c.Idle, fmt.Sprintf("servers would be stopped after %s, before a notebook has even loaded", decode.Period(h.Cull.Idle)), "write 30m or more; cull: false for never")
	case h.Cull.Idle < 2*h.Cull.Every && !r.IsSet(&c.Every):
		h.Cull.Every = h.Cull.Idle / 2
	case h.Cull.Every > h.Cull.Idle:
		r.Wrong(&c.Every, fmt.Sprintf("servers would be checked every %s, and stopped after %s of idleness", decode.Period(h.Cull.Every), decode.Period(h.Cull.Idle)), "write less than idle")
	}
	if h.Cull.Every < 30*time.Second {
		r.Wrong(&c.Every, fmt.Sprintf("the hub would be queried every %s", decode.Period(h.Cull.Every)), "write 1m or more")
	}
	if h.Cull.MaxAge > 0 && h.Cull.MaxAge < h.Cull.Idle {
		r.Wrong(&c.MaxAge, fmt.Sprintf("even busy servers would be stopped after %s, and idle ones after %s", decode.Period(h.Cull.MaxAge), decode.Period(h.Cull.Idle)), "write more than idle, e.g. 24h")
	}
	r.userNames(c.Exempt)
}
