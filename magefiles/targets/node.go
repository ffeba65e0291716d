package targets

import (
	"context"

	"github.com/cps-gpu/homelab/internal/session"
	"github.com/cps-gpu/homelab/internal/session/upgrade"
)

// NodeDrainOptions are the options of [NodeDrain].
type NodeDrainOptions struct {
	FileOptions
	session.NodeFlags
	OutputOptions
	LimitOptions
}

// NodeDrain is node:drain.
func NodeDrain(ctx context.Context, o NodeDrainOptions) error {
	return withSessionFlags(ctx, settings(o), session.NodeDrain, o.NodeFlags)
}

// NodeUncordonOptions are the options of [NodeUncordon].
type NodeUncordonOptions struct {
	FileOptions
	Node   string `help:"NAME: the node"`
	NoWait bool   `help:"end with exit code 4 if another run changes the same cluster or host, instead of waiting"`
	OutputOptions
}

// NodeUncordon is node:uncordon.
func NodeUncordon(ctx context.Context, o NodeUncordonOptions) error {
	flags := session.NodeFlags{ChangeFlags: session.ChangeFlags{NoWait: o.NoWait}, Node: o.Node}
	return withSessionFlags(ctx, settings(o), session.NodeUncordon, flags)
}

// NodeCycleOptions are the options of [NodeCycle].
type NodeCycleOptions struct {
	FileOptions
	session.NodeCycleFlags
	OutputOptions
	LimitOptions
}

// NodeCycle is node:cycle.
func NodeCycle(ctx context.Context, o NodeCycleOptions) error {
	return withSessionFlags(ctx, settings(o), session.NodeCycle, o.NodeCycleFlags)
}

// NodeUpgradeOptions are the options of [NodeUpgrade].
type NodeUpgradeOptions struct {
	FileOptions
	session.NodeUpgradeFlags
	OutputOptions
	LimitOptions
}

// NodeUpgrade is node:upgrade.
func NodeUpgrade(ctx context.Context, o NodeUpgradeOptions) error {
	return withSessionFlags(ctx, settings(o), session.NodeUpgrade, o.NodeUpgradeFlags)
}

// NodeReplaceOptions are the options of [NodeReplace].
type NodeReplaceOptions struct {
	FileOptions
	session.NodeReplaceFlags
	OutputOptions
	LimitOptions
}

// NodeReplace is node:replace.
func NodeReplace(ctx context.Context, o NodeReplaceOptions) error {
	return withSessionFlags(ctx, settings(o), session.NodeReplace, o.NodeReplaceFlags)
}

// NodeRemoveOptions are the options of [NodeRemove].
type NodeRemoveOptions struct {
	FileOptions
	session.NodeRemoveFlags
	OutputOptions
	LimitOptions
}

// NodeRemove is node:remove.
func NodeRemove(ctx context.Context, o NodeRemoveOptions) error {
	return withSessionFlags(ctx, settings(o), session.NodeRemove, o.NodeRemoveFlags)
}

// K3sUpgradeOptions are the options of [K3sUpgrade].
type K3sUpgradeOptions struct {
	session.UpgradeFlags
	FileOptions
	session.ChartFlags
	OutputOptions
	LimitOptions
}

// K3sUpgrade is k3s:upgrade.
func K3sUpgrade(ctx context.Context, o K3sUpgradeOptions) error {
	return withOptionsFlags(ctx, settings(o), upgrade.K3s, o.UpgradeFlags)
}

// TemplateListOptions are the options of [TemplateList].
type TemplateListOptions struct {
	FileOptions
	OutputOptions
}

// TemplateList is template:list.
func TemplateList(ctx context.Context, o TemplateListOptions) error {
	return withSession(ctx, settings(o), session.TemplateList)
}

// TemplatePruneOptions are the options of [TemplatePrune].
type TemplatePruneOptions struct {
	FileOptions
	session.ChangeFlags
	OutputOptions
}

// TemplatePrune is template:prune.
func TemplatePrune(ctx context.Context, o TemplatePruneOptions) error {
	return withSessionFlags(ctx, settings(o), session.TemplatePrune, o.ChangeFlags)
}

// GPUListOptions are the options of [GPUList].
type GPUListOptions struct {
	FileOptions
	session.HostFlags
	OutputOptions
}

// GPUList is gpu:list.
func GPUList(ctx context.Context, o GPUListOptions) error {
	return withSessionFlags(ctx, settings(o), session.GPUList, o.HostFlags)
}

// GPUVerifyOptions are the options of [GPUVerify].
type GPUVerifyOptions struct {
	FileOptions
	session.GPUVerifyFlags
	OutputOptions
	LimitOptions
	ReportOptions
}

// GPUVerify is gpu:verify.
func GPUVerify(ctx context.Context, o GPUVerifyOptions) error {
	return withReport(ctx, settings(o), "gpu:verify", session.GPUVerify, o.GPUVerifyFlags)
}
