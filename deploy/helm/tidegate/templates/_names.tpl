{{- define "tidegate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "tidegate" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-tidegate" (.Release.Name | trunc 31 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{- define "tidegate.headless" -}}
{{- include "tidegate.fullname" . }}-gateways
{{- end -}}

{{- /* The name of a pod in DNS; kubelet puts the pod's name in. */ -}}
{{- define "tidegate.podHost" -}}
{{- printf "$(POD_NAME).%s.%s.svc.%s" (include "tidegate.headless" .) .Release.Namespace .Values.clusterDomain -}}
{{- end -}}

{{- define "tidegate.labels" -}}
app.kubernetes.io/name: tidegate
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "tidegate.gatewayLabels" -}}
app.kubernetes.io/name: tidegate
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end -}}

{{- define "tidegate.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{- define "tidegate.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "tidegate.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- /* playground has a zone of its own. */ -}}
{{- define "tidegate.zones" -}}
{{- if .Values.playground -}}
{{- list (dict "id" 1 "name" "playground" "replicas" 1) | toJson -}}
{{- else -}}
{{- .Values.zones | toJson -}}
{{- end -}}
{{- end -}}

{{- define "tidegate.trafficDistribution" -}}
{{- $version := .Values.kubeVersion | default .Capabilities.KubeVersion.Version -}}
{{- ternary "PreferSameZone" "PreferClose" (semverCompare ">=1.35.0-0" $version) -}}
{{- end -}}

{{- define "tidegate.updateStrategy" -}}
{{- $zones := include "tidegate.zones" . | fromJsonArray -}}
{{- $single := gt (len $zones) 1 -}}
{{- range $zones }}{{ if gt (int .replicas) 1 }}{{ $single = false }}{{ end }}{{ end -}}
{{- .Values.updateStrategy | default (ternary "OnDelete" "RollingUpdate" $single) -}}
{{- end -}}

{{- /* A number as it was written: YAML's are floats here. */ -}}
{{- define "tidegate.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end -}}
