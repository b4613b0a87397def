package random

import (
	"encoding/json"
	"fmt"
)

type object = map[string]any

// inference is a pod spec as users of an inference platform have them: a server with GPUs, models on a
// volume, probes, shared memory, and sometimes helpers beside it.
func (g *generator) inference() string {
	gpus := pick(g, []int{1, 1, 2, 4, 8})
	containers := []any{g.server(gpus)}
	if g.chance(0.4) {
		containers = append(containers, object{
			"name":      pick(g, []string{"metrics", "agent", "proxy"}),
			"image":     "registry.example/metrics:2.1",
			"ports":     []any{object{"name": "metrics", "containerPort": 9400, "protocol": "TCP"}},
			"resources": object{"requests": object{"cpu": "100m", "memory": "128Mi"}},
		})
	}
	spec := object{
		"containers": containers,
		"volumes": []any{
			object{"name": "shm", "emptyDir": object{"medium": "Memory", "sizeLimit": fmt.Sprintf("%dGi", 8*gpus)}},
			object{"name": "models", "persistentVolumeClaim": object{"claimName": "models", "readOnly": true}},
		},
		"tolerations":   []any{object{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}},
		"restartPolicy": "Always", "terminationGracePeriodSeconds": 30 * (1 + g.rng.IntN(4)),
	}
	if g.chance(0.3) {
		spec["initContainers"] = []any{object{
			"name": "download", "image": "registry.example/fetch:1", "args": []any{"--model", "example/llm-8b"},
			"volumeMounts": []any{object{"name": "models", "mountPath": "/models"}},
		}}
	}
	if g.chance(0.3) {
		spec["imagePullSecrets"] = []any{object{"name": "registry-b"}, object{"name": "registry-a"}}
	}
	if g.chance(0.3) {
		spec["affinity"] = object{"nodeAffinity": object{"requiredDuringSchedulingIgnoredDuringExecution": object{
			"nodeSelectorTerms": []any{object{"matchExpressions": []any{object{
				"key": "gpu.product", "operator": "In", "values": []any{"A", "B"}}}}}}}}
	}
	if g.chance(0.3) {
		spec["schedulerName"] = pick(g, []string{"kai-scheduler", "default-scheduler"})
	}
	if g.chance(0.2) {
		spec["resourceClaims"] = []any{object{"name": "gpu", "resourceClaimTemplateName": "single-gpu"}}
	}
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (g *generator) server(gpus int) object {
	limits := object{
		"nvidia.com/gpu": fmt.Sprint(gpus),
		"cpu":            pick(g, []string{"8", "16", "12500m", "0.5", "1000m"}),
		"memory":         pick(g, []string{"64Gi", "80Gi", "1.5Ti", "100G", "131072Mi"}),
	}
	out := object{
		"name":    "server",
		"image":   fmt.Sprintf("registry.example/server:0.%d.%d", g.rng.IntN(9), g.rng.IntN(9)),
		"command": []any{"python3", "-m", "server"},
		"args":    []any{"--model", "example/llm-70b", "--tensor-parallel-size", fmt.Sprint(gpus)},
		"env": []any{
			object{"name": "POD_NAME", "valueFrom": object{"fieldRef": object{"fieldPath": "metadata.name"}}},
			object{"name": "TOKEN", "valueFrom": object{"secretKeyRef": object{"name": "hub", "key": "token"}}},
			object{"name": "CACHE", "value": "/models/cache"},
		},
		"resources": object{"limits": limits, "requests": limits},
		"volumeMounts": []any{
			object{"name": "shm", "mountPath": "/dev/shm"},
			object{"name": "models", "mountPath": "/models"},
		},
		"ports": []any{
			object{"name": "http", "containerPort": 8000, "protocol": "TCP"},
			object{"name": "system", "containerPort": 9090},
		},
	}
	if g.chance(0.6) {
		out["readinessProbe"] = object{"httpGet": object{"path": "/health", "port": pick(g, []any{8000, "http"})}, "periodSeconds": 10}
	}
	if g.chance(0.3) {
		out["startupProbe"] = object{"tcpSocket": object{"port": 8000}, "failureThreshold": 60}
	}
	if g.chance(0.2) {
		out["securityContext"] = object{"capabilities": object{"add": []any{"IPC_LOCK"}}}
	}
	return out
}
