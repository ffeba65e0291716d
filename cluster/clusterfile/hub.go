package clusterfile

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/auth"
	"github.com/cps-gpu/homelab/cluster/clusterfile/internal/decode"
	"github.com/cps-gpu/homelab/cluster/spec"
)

// hubSection completes and checks hub.
type hubSection struct{ *resolver }

// The default images of profiles, by date because quay.io/jupyter moves all other tags. Seen
// in public use in July and October 2026.
const (
	plainImage = "quay.io/jupyter/minimal-notebook:2026-10-05"
	gpuImage   = "quay.io/jupyter/pytorch-notebook:cuda12-2026-07-28"
)

func (r hubSection) hub() {
	h := r.spec.Platform.Hub
	if h == nil {
		return
	}
	r.hostname(&h.Hostname, "hub")
	r.chartVersion(&h.Version, "jupyterhub", h.Version)
	if !decode.DNSLabel.MatchString(h.Namespace) || h.Namespace == "default" || strings.HasPrefix(h.Namespace, "kube-") {
		r.Wrong(&h.Namespace, fmt.Sprintf("%q cannot be the hub's namespace", h.Namespace), "write a name of its own, e.g. jupyterhub")
	}
	r.hubDatabase(&h.Database)
	auth.Complete(r.Checker, r.spec)
	r.defaultProfile(h)
	for i := range h.Profiles {
		r.hubProfile(&h.Profiles[i])
	}
	if len(h.Profiles) == 0 {
		h.Profiles = r.usualProfiles()
		h.Profiles[0].Default = true
	}
	r.hubHome(&h.Home)
	r.hubShares(h)
	r.hubScratch(h)
	r.hubCull(&h.Cull)
	for i := range h.Profiles {
		r.profileIdle(&h.Profiles[i], h.Cull)
	}
	for i, p := range h.Reach {
		if p.IsValid() && p != p.Masked() {
			r.Wrong(&h.Reach[i], fmt.Sprintf("%s is an address in a network, not a network", p), "write "+p.Masked().String())
		}
	}
	if !h.Isolate.IsOn() && len(h.Reach) > 0 {
		r.Wrong(&h.Reach, "notebooks are not isolated, so they reach everything", "remove reach, or isolate: false")
	}
	r.CheckRange(&h.Quota.GPUs, "gpus", 1, 100000)
}

func (r hubSection) hubDatabase(db *spec.HubDatabase) {
	if db.Kind == "" {
		db.Kind = "sqlite"
		if r.IsSet(&db.URL) || r.IsSet(&db.Name) {
			db.Kind = "postgres"
		}
	}
	sized := r.IsSet(&db.Size)
	if !sized && db.Kind == "sqlite" {
		db.Size = spec.GiB
	}
	switch {
	case r.IsSet(&db.URL) && r.IsSet(&db.Name):
		r.Wrong(&db.Name, "a hub has one database", "remove url, or name")
	case db.Kind == "postgres" && !r.IsSet(&db.URL) && !r.IsSet(&db.Name):
		r.Wrong(&db.URL, "postgres has neither name nor url", "write name: with one of postgres.databases, or url: env:NAME, with postgresql://user:password@host/name in that variable; the database must exist")
	case db.Kind == "postgres":
		db.Size = 0
		for _, at := range []any{&db.Class, &db.Size} {
			if r.IsSet(at) {
				r.Wrong(at, "with postgres the hub has no volume", "remove it, or write kind: sqlite")
			}
		}
	case r.IsSet(&db.URL):
		r.Wrong(&db.URL, "url has no effect with sqlite", "remove it, or write kind: postgres")
	case r.IsSet(&db.Name):
		r.Wrong(&db.Name, "name has no effect with sqlite", "remove it, or write kind: postgres")
	case db.Size < 100*spec.MiB:
		r.Wrong(&db.Size, fmt.Sprintf("%s is too little for the hub's database", db.Size), "write 1GiB")
	}
}

func (r hubSection) hubProfile(p *spec.HubProfile) {
	r.profileNames(p)
	r.profileSizes(p)
	r.profileImages(p)
	p.Title = cmp.Or(p.Title, p.Name)
	// Kubernetes itself uses a limit as the request if there is none.
	p.CPU.Guarantee = cmp.Or(p.CPU.Guarantee, p.CPU.Limit)
	p.Memory.Guarantee = cmp.Or(p.Memory.Guarantee, p.Memory.Limit, spec.GiB)
	if d := &p.EphemeralStorage; r.IsSet(d) {
		if r.IsSet(&d.Limit) && d.Limit < spec.GiB {
			r.Wrong(&d.Limit, fmt.Sprintf("a notebook writes more than %s", d.Limit), "write 5GiB or more")
		}
		if d.Limit > 0 && d.Guarantee > d.Limit {
			r.Wrong(&d.Guarantee, fmt.Sprintf("%s is guaranteed %s of disk and limited to %s", p.Name, d.Guarantee, d.Limit), "write a guarantee that is at most the limit")
		}
		d.Guarantee = cmp.Or(d.Guarantee, min(d.Limit, spec.GiB))
	}
	for i := range p.Sizes {
		r.profileSize(p, &p.Sizes[i])
	}
	if p.GPUs > 0 || p.MIG != "" {
		p.RuntimeClass = cmp.Or(p.RuntimeClass, "nvidia")
	}
	if slices.ContainsFunc(spec.Variants(*p), func(v spec.HubProfile) bool { return v.GPUs > 0 || v.MIG != "" }) {
		p.Image = cmp.Or(p.Image, gpuImage)
	}
	p.Image = cmp.Or(p.Image, plainImage)
}

// profileImages checks the images of a profile; the first of several is that of who chooses none.
func (r hubSection) profileImages(p *spec.HubProfile) {
	r.image(&p.Image)
	if len(p.Images) > 0 && p.Image != "" {
		r.Wrong(&p.Image, "image has no effect beside images", "write it as one of images")
	}
	for i := range p.Images {
		choice := &p.Images[i]
		r.choiceName(choice, choice.Name)
		r.image(&choice.Image)
		choice.Title, p.Image = cmp.Or(choice.Title, choice.Name), cmp.Or(p.Image, choice.Image)
	}
	if _, err := regexp.Compile(p.OtherImages); err != nil {
		r.Wrong(&p.OtherImages, fmt.Sprintf("otherImages is not a regular expression: %v", err), `write e.g. quay\.io/jupyter/.+`)
	}
}

func (r hubSection) choiceName(at any, name string) {
	if !decode.DNSLabel.MatchString(name) || len(name) > 40 {
		r.Wrong(at, fmt.Sprintf("%q cannot be a choice's name", name), "write at most 40 lower-case letters, digits and hyphens; title: is what people read")
	}
}

// profileSize completes and checks a size of a profile.
func (r hubSection) profileSize(p *spec.HubProfile, s *spec.HubSize) {
	r.choiceName(s, s.Name)
	r.CheckRange(&s.GPUs, "gpus", 0, 16)
	r.amounts(p.Name+"/"+s.Name, &s.CPU, &s.Memory)
	if s.GPUs > 0 && (p.MIG != "" || p.GPUMemory > 0) {
		r.Wrong(&s.GPUs, fmt.Sprintf("servers of profile %s have a part of a GPU", p.Name), "remove gpus, or mig and gpuMemory of the profile")
	}
	s.Title = cmp.Or(s.Title, s.Name)
	s.CPU.Guarantee, s.Memory.Guarantee = cmp.Or(s.CPU.Guarantee, s.CPU.Limit), cmp.Or(s.Memory.Guarantee, s.Memory.Limit)
}

// image checks an image.
func (r hubSection) image(at *string) {
	image := *at
	switch _, tag, _ := decode.CutLast(image[strings.LastIndexByte(image, '/')+1:], ":"); {
	case image == "":
	case !decode.Matches(imageName, image):
		r.Wrong(at, fmt.Sprintf("%q is not an image", image), "write registry/path:tag, e.g. "+plainImage)
	case tag == "":
		r.Wrong(at, fmt.Sprintf("image %s has no tag, so each node runs the image that was newest when it pulled", image), "add the tag of a release, e.g. "+plainImage)
	case tag == "latest":
		r.Warn(at, fmt.Sprintf("image %s changes over time, and may differ between nodes", image), "write the tag of a release")
	}
}

func (r hubSection) profileNames(p *spec.HubProfile) {
	if !decode.DNSLabel.MatchString(p.Name) || len(p.Name) > 40 {
		r.Wrong(p, fmt.Sprintf("%q cannot be a profile's name", p.Name), "write at most 40 lower-case letters, digits and hyphens; title: is what people read")
	}
	if p.RuntimeClass != "" && !decode.IsDNSName(p.RuntimeClass) {
		r.Wrong(&p.RuntimeClass, fmt.Sprintf("%q cannot be a runtime class", p.RuntimeClass), "write e.g. nvidia")
	}
	if p.GPUs > 0 && p.RuntimeClass != "" && !strings.HasPrefix(p.RuntimeClass, "nvidia") {
		r.Warn(&p.RuntimeClass, fmt.Sprintf("K3s shows GPUs to containers of the runtime class nvidia, and this is %s", p.RuntimeClass), "remove runtimeClass")
	}
	if p.DefaultURL != "" && !strings.HasPrefix(p.DefaultURL, "/") {
		r.Wrong(&p.DefaultURL, fmt.Sprintf("%q is not a path", p.DefaultURL), "write e.g. /lab, or /tree for the classic view")
	}
	for i, name := range p.Packages {
		if !decode.Matches(pipName, name) {
			r.Wrong(&p.Packages[i], fmt.Sprintf("%q is not a package for pip", name), "write name or name==version")
		}
	}
	for _, name := range sortedNames(p.Env) {
		at := r.MemberAt(&p.Env, name)
		switch {
		case !spec.IsVariable(name):
			r.Wrong(at, fmt.Sprintf("%q cannot be an environment variable", name), "write letters, digits and underscores")
		case decode.SecretKey.MatchString(name) && p.Env[name] != "":
			r.Wrong(at, fmt.Sprintf("%s would be in plain text in the hub's configuration, for all to read", name), "let people keep it in their home folder")
		}
	}
}

func (r hubSection) profileSizes(p *spec.HubProfile) {
	r.CheckRange(&p.GPUs, "gpus", 0, 16)
	r.amounts(p.Name, &p.CPU, &p.Memory)
	if p.Memory.Limit > 0 && p.SHM > p.Memory.Limit {
		r.Wrong(&p.SHM, fmt.Sprintf("/dev/shm is memory, and %s of it are more than the profile's limit of %s", p.SHM, p.Memory.Limit), "write less, or a higher limit")
	}
	if p.MIG != "" && p.GPUs > 0 {
		r.Wrong(&p.MIG, fmt.Sprintf("profile %s asks for GPUs and for an instance of one", p.Name), "keep one of gpus and mig")
	}
	if p.GPUMemory > 0 && p.GPUs != 1 {
		r.Wrong(&p.GPUMemory, "gpuMemory is a part of one GPU that is shared", "write gpus: 1 beside it, or remove gpuMemory")
	}
}

// amounts checks CPU and memory of a profile or of one of its sizes.
func (r hubSection) amounts(name string, cpu *spec.CPU, memory *spec.Memory) {
	if cpu.Limit > 0 && cpu.Guarantee > cpu.Limit {
		r.Wrong(&cpu.Guarantee, fmt.Sprintf("%s is guaranteed %g cores and limited to %g", name, cpu.Guarantee, cpu.Limit), "write a guarantee that is at most the limit")
	}
	if memory.Limit > 0 && memory.Guarantee > memory.Limit {
		r.Wrong(&memory.Guarantee, fmt.Sprintf("%s is guaranteed %s of memory and limited to %s", name, memory.Guarantee, memory.Limit), "write a guarantee that is at most the limit")
	}
	for _, c := range []*spec.Cores{&cpu.Guarantee, &cpu.Limit} {
		if r.IsSet(c) && *c <= 0 {
			r.Wrong(c, "a profile with no CPU starts nothing", "write e.g. 0.5, or leave it out")
		}
	}
	if limit := &memory.Limit; r.IsSet(limit) && *limit < 256*spec.MiB {
		r.Wrong(limit, fmt.Sprintf("a notebook does not even start with %s of memory", *limit), "write 1GiB or more")
	}
}

// usualProfiles are the default profiles of a hub: small enough for any node that can run a
// notebook at all.
func (r hubSection) usualProfiles() []spec.HubProfile {
	out := []spec.HubProfile{{
		Name: "cpu", Title: "CPU", Description: "Up to 2 cores and 4 GiB", Image: plainImage,
		CPU: spec.CPU{Guarantee: 0.5, Limit: 2}, Memory: spec.Memory{Guarantee: spec.GiB, Limit: 4 * spec.GiB},
	}}
	if len(r.spec.GPUNodes()) > 0 && r.spec.NVIDIA.Stack != spec.StackNone {
		out = append(out, spec.HubProfile{
			Name: "gpu", Title: "1 GPU", Description: "PyTorch with CUDA, and as much CPU and memory as the node has free", Image: gpuImage,
			CPU: spec.CPU{Guarantee: 1}, Memory: spec.Memory{Guarantee: 4 * spec.GiB}, GPUs: 1, RuntimeClass: "nvidia",
		})
		if !r.spec.OpenAgents() {
			out[0].Pool = r.spec.OnlyGPUPool() // preferred to servers, where etcd runs
		}
	}
	return out
}

func (r hubSection) defaultProfile(h *spec.Hub) {
	var first *spec.HubProfile
	for i := range h.Profiles {
		p := &h.Profiles[i]
		if !p.Default {
			continue
		}
		if first != nil {
			r.Wrong(&p.Default, "there is another default profile, in "+r.Line(&first.Default), "keep one of them")
			continue
		}
		first = p
	}
	if first == nil && len(h.Profiles) > 0 {
		h.Profiles[0].Default = true
	}
}

func (r hubSection) hubHome(home *spec.HubHome) {
	if home.Claim != "" {
		for _, at := range []any{&home.Class, &home.Size} {
			if r.IsSet(at) {
				r.Wrong(at, "homes are in an existing claim", "remove it, or claim")
			}
		}
		if !decode.IsDNSName(home.Claim) {
			r.Wrong(&home.Claim, fmt.Sprintf("%q cannot be a claim", home.Claim), "write its name as kubectl get pvc shows it")
		}
	}
	if r.IsSet(&home.Size) && home.Size < 100*spec.MiB {
		r.Wrong(&home.Size, fmt.Sprintf("%s is too little for a home", home.Size), "write 10GiB or more")
	}
	if home.Claim == "" {
		home.Size = cmp.Or(home.Size, 20*spec.GiB)
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
	r.inNotebook(&home.Path, home.Path)
}

// inNotebook checks a mount point in notebooks.
func (r hubSection) inNotebook(at *string, p string) {
	if !decode.IsCleanPath(p) || slices.Contains([]string{"/dev", "/dev/shm", "/etc", "/opt", "/opt/conda", "/proc", "/sys", "/usr", "/tmp"}, p) {
		r.Wrong(at, fmt.Sprintf("nothing can be mounted on %q in a notebook", p), "write an absolute path of its own, e.g. /data")
	}
}

func (r hubSection) hubShares(h *spec.Hub) {
	var known []string
	nfs := r.spec.Platform.Storage.NFS
	if nfs != nil {
		for _, s := range nfs.Shares {
			known = append(known, s.Name)
		}
	}
	mounts := map[string]any{h.Home.Path: &h.Home.Path}
	for i := range h.Shared {
		s := &h.Shared[i]
		s.Path = cmp.Or(s.Path, "/shared/"+s.Name)
		at := any(&s.Path)
		if !r.IsSet(at) {
			at = s
		}
		i := slices.Index(known, s.Name)
		switch {
		case len(known) == 0:
			r.Wrong(s, fmt.Sprintf("there is no share %s: storage.nfs names none", s.Name), "write storage: {nfs: {server: …, shares: {"+s.Name+": /export/"+s.Name+"}}}")
		case i < 0:
			r.Wrong(s, fmt.Sprintf("storage.nfs has no share %q", s.Name), decode.OrSuggest(s.Name, known))
		case nfs.Shares[i].ReadOnly && s.ReadOnly == spec.Off:
			r.Wrong(&s.ReadOnly, fmt.Sprintf("share %s is read-only in storage.nfs", s.Name), "remove readOnly in one of the places")
		default:
			s.ReadOnly = s.ReadOnly.Or(nfs.Shares[i].ReadOnly)
		}
		s.ReadOnly = s.ReadOnly.Or(false)
		auth.Share(r.Checker, s, i >= 0 && nfs.Shares[i].ReadOnly)
		r.inNotebook(&s.Path, s.Path)
		unique(r.resolver, mounts, s.Path, at, fmt.Sprintf("%s is a mount point already", s.Path), "write another path")
	}
}

func (r hubSection) hubScratch(h *spec.Hub) {
	s := h.Scratch
	if s == nil {
		return
	}
	if storage := r.spec.Platform.Storage.Scratch; s.Class == "" && storage != nil {
		s.Class = storage.Class
	}
	if s.Class == "" {
		r.Wrong(s, "notebooks request scratch volumes, and no storage class provides them", "write storage: {scratch: true} with a scratch disk in a pool, or class: here")
	}
	if r.IsSet(&s.Size) && s.Size < 100*spec.MiB {
		r.Wrong(&s.Size, fmt.Sprintf("%s is too little for scratch", s.Size), "write 10GiB or more")
	}
	r.inNotebook(&s.Path, s.Path)
	if s.Path == h.Home.Path {
		r.Wrong(&s.Path, h.Home.Path+" is the home", "write another path")
	}
}

func (r hubSection) hubCull(c *spec.HubCull) {
	if !c.Enabled.IsOn() {
		for _, at := range []any{&c.Idle, &c.MaxAge, &c.Every, &c.Exempt} {
			if r.IsSet(at) {
				r.Wrong(at, "servers are never stopped, so this has no effect", "remove it, or enabled: false")
			}
		}
		*c = spec.HubCull{Enabled: spec.Off}
		return
	}
	switch {
	case c.Idle < 5*time.Minute:
		r.Wrong(&c.Idle, fmt.Sprintf("servers would be stopped after %s, before a notebook has even loaded", decode.Period(c.Idle)), "write 30m or more; cull: false for never")
	case c.Idle < 2*c.Every && !r.IsSet(&c.Every):
		c.Every = c.Idle / 2
	case c.Every > c.Idle:
		r.Wrong(&c.Every, fmt.Sprintf("servers would be checked every %s, and stopped after %s of idleness", decode.Period(c.Every), decode.Period(c.Idle)), "write less than idle")
	}
	if c.Every < 30*time.Second {
		r.Wrong(&c.Every, fmt.Sprintf("the hub would be queried every %s", decode.Period(c.Every)), "write 1m or more")
	}
	if c.MaxAge > 0 && c.MaxAge < c.Idle {
		r.Wrong(&c.MaxAge, fmt.Sprintf("even busy servers would be stopped after %s, and idle ones after %s", decode.Period(c.MaxAge), decode.Period(c.Idle)), "write more than idle, e.g. 24h")
	}
	auth.UserNames(r.Checker, c.Exempt)
}

// profileIdle checks when servers of a profile are stopped.
func (r hubSection) profileIdle(p *spec.HubProfile, c spec.HubCull) {
	switch {
	case !r.IsSet(&p.Idle):
	case !c.Enabled.IsOn():
		r.Wrong(&p.Idle, "servers are never stopped, so this has no effect", "remove it, or cull: false")
	case p.Idle < 5*time.Minute:
		r.Wrong(&p.Idle, fmt.Sprintf("servers would be stopped after %s, before a notebook has even loaded", decode.Period(p.Idle)), "write 30m or more")
	case c.Every > p.Idle:
		r.Wrong(&p.Idle, fmt.Sprintf("servers are checked every %s, and would be stopped after %s", decode.Period(c.Every), decode.Period(p.Idle)), "write cull: {every: 5m}")
	case c.MaxAge > 0 && p.Idle > c.MaxAge:
		r.Wrong(&p.Idle, fmt.Sprintf("even busy servers are stopped after %s", decode.Period(c.MaxAge)), "write less, or a longer cull.maxAge")
	}
}
