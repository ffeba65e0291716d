package lint

// lintRulesGitOps are the rules about the objects by which Flux and Argo CD deploy.
var lintRulesGitOps = [...]Rule{
	{"flux-time", Failure, "", "A time that Flux refuses: days, or a bare number.",
		"30s, 10m, 1h30m", "kustomize-controller api/v1 kustomization_types.go Interval (validation)"},
	{"flux-required", Failure, "", "A Kustomization or HelmRelease of Flux without a key that its definition requires.",
		"write the key", "kustomize-controller api/v1 kustomization_types.go; helm-controller api/v2 helmrelease_types.go"},
	{"flux-chart", Failure, "", "A HelmRelease with neither or both of chart and chartRef.",
		"keep one of them", "helm-controller api/v2 helmrelease_types.go HelmReleaseSpec (validation)"},
	{"chart-floats", Warning, "", "A HelmRelease or an Application without one exact version of its chart: the newest one is installed as soon as it is published.",
		"write the whole version", "helm-controller api/v2 helmrelease_types.go Version (default *); Argo CD docs/user-guide/tracking_strategies.md"},
	{"application-ref", Failure, "", "An Application whose valueFiles name a source that it does not have: Argo CD renders nothing.",
		"add ref to the source that has the file", "Argo CD reposerver/repository (which is not one of the available sources)"},
}
