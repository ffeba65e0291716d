package lint

// lintRulesGitOps are the rules about the objects by which Flux and Argo CD deploy.
var lintRulesGitOps = [...]Rule{
	{"flux-time", Failure, "", "A time that Flux refuses: days, or a bare number.",
		"30s, 10m, 1h30m", "kustomize-controller api/v1 kustomization_types.go Interval (validation)"},
	{"flux-required", Failure, "", "A Kustomization or HelmRelease of Flux without a key that its definition requires.",
		"write the key", "kustomize-controller api/v1 kustomization_types.go; helm-controller api/v2 helmrelease_types.go"},
	{"flux-chart", Failure, "", "A HelmRelease with neither or both of chart and chartRef.",
		"keep one of them", "helm-controller api/v2 helmrelease_types.go HelmReleaseSpec (validation)"},
	{"flux-reference", Warning, "", "A Kustomization or HelmRelease that names another, or a source, which no file of the repository defines: it waits forever.",
		"correct the name, or define it here", "kustomize-controller internal/controller/kustomization_controller.go checkDependencies; helm-controller internal/controller/helmrelease_controller.go checkDependencies"},
	{"gitops-path", Failure, "", "A Kustomization or an Application whose folder is not in the repository, although others of the same source are: nothing is deployed.",
		"correct the path: it starts at the root of the repository", "kustomize-controller internal/controller/kustomization_controller.go reconcile (kustomization path not found); Argo CD util/app/path/path.go"},
	{"chart-floats", Warning, "", "A HelmRelease, an OCIRepository or an Application without one exact version: the newest one is installed as soon as it is published.",
		"write the whole version", "helm-controller api/v2 helmrelease_types.go Version (default *); source-controller api/v1 ocirepository_types.go OCIRepositoryRef; Argo CD docs/user-guide/tracking_strategies.md"},
	{"application-ref", Failure, "", "An Application whose valueFiles name a source that it does not have: Argo CD renders nothing.",
		"add ref to the source that has the file", "Argo CD reposerver/repository (which is not one of the available sources)"},
}
