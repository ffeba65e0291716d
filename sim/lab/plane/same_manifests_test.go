package plane_test

// sameManifests are small: what the API fills in is what is compared.
const sameManifests = `
apiVersion: v1
kind: Namespace
metadata: {name: same, labels: {same: ""}}
---
apiVersion: v1
kind: Node
metadata: {name: wk1, labels: {same: ""}}
spec: {taints: [{key: a, effect: NoSchedule}]}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high, labels: {same: ""}}
value: 1000
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: waits, labels: {same: ""}, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: nobody.example
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: now, labels: {same: ""}}
provisioner: nobody.example
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: nobody.example, labels: {same: ""}}
spec: {}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: old, labels: {same: ""}}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], storageClassName: old, hostPath: {path: /old}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: old}
spec: {accessModes: [ReadWriteOnce], storageClassName: old, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: "1.5Gi"}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: now}
spec: {accessModes: [ReadWriteMany], storageClassName: now, resources: {requests: {storage: 1G}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: m, labels: {same: ""}}
data: {k: v}
---
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {k: v}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot}
---
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec: {schedulingGates: [{name: a.example/wait}], containers: [{name: c, image: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec:
  priorityClassName: high
  initContainers: [{name: i, image: busybox}]
  containers:
  - name: c
    image: nginx:1
    ports: [{containerPort: 80}]
    resources: {limits: {cpu: "0.5", memory: 1Gi}}
    livenessProbe: {httpGet: {port: 80}}
    env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
  volumes: [{name: v, configMap: {name: m}}, {name: e}, {name: d, persistentVolumeClaim: {claimName: data}}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {a: b}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: headless}
spec: {clusterIP: None, selector: {a: b}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: outside}
spec: {type: LoadBalancer, selector: {a: b}, ports: [{port: 80, name: http}, {port: 443, name: https}]}
---
apiVersion: v1
kind: Service
metadata: {name: elsewhere}
spec: {type: ExternalName, externalName: example.com}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: "nginx:1"}]}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec: {selector: {matchLabels: {a: d}}, template: {metadata: {labels: {a: d}}, spec: {hostNetwork: true, containers: [{name: c, image: nginx, ports: [{containerPort: 80}]}]}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: headless
  selector: {matchLabels: {a: s}}
  template: {metadata: {labels: {a: s}}, spec: {containers: [{name: c, image: "nginx:1"}]}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "busybox:1"}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: held}
spec: {suspend: true, parallelism: 2, template: {spec: {restartPolicy: OnFailure, containers: [{name: c, image: "busybox:1"}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec: {schedule: "0 3 * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "busybox:1"}]}}}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec: {ingressClassName: traefik, tls: [{hosts: [a.example], secretName: t}], rules: [{host: a.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed}
spec: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {a: b}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: robot, namespace: same}, {kind: User, name: jane}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: same, labels: {same: ""}}
roleRef: {kind: ClusterRole, name: cluster-admin}
subjects: [{kind: Group, name: all}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hook, labels: {same: ""}}
webhooks: [{name: a.b.example, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "https://hook.example/"}, rules: [{apiGroups: [none.example], apiVersions: [v1], operations: [CREATE], resources: [nothing]}]}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com, labels: {same: ""}}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList, shortNames: [wd]}
  versions:
  - {name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}},
     additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}, {name: Why, type: string, jsonPath: .status.why, priority: 1}, {name: Age, type: date, jsonPath: .metadata.creationTimestamp}]}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: w}
spec: {size: 3}
status: {why: none}
`
