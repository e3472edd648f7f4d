{{- define "tidegate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "tidegate.containerSecurity" -}}
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* What pods of gateways and of the pipeline share. */ -}}
{{- define "tidegate.podCommon" -}}
serviceAccountName: {{ include "tidegate.serviceAccount" . }}
automountServiceAccountToken: false
# Else kubelet sets TIDEGATE_... variables for the Services of this chart.
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- include "tidegate.podSecurity" . | nindent 2 }}
{{- end -}}

{{- define "tidegate.gatewayEnv" -}}
{{- $root := index . 0 -}}
{{- $zone := index . 1 -}}
- name: HOME
  value: /var/lib/tidegate
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
# The pod's ordinal: 100 for the first of zone 1, since the StatefulSet begins there.
- name: POD_INDEX
  valueFrom: {fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}}
- name: HOST_IP
  valueFrom: {fieldRef: {fieldPath: status.hostIP}}
- name: TIDEGATE_NODE_ID
  # Gateways of one pod have the ids from this one on.
  value: {{ ternary "$(POD_INDEX)00" "$(POD_INDEX)" (gt (int $root.Values.processes) 1) | quote }}
- name: TIDEGATE_BROKER_RACK
  value: {{ $zone.name | quote }}
- name: TIDEGATE_ADVERTISED_LISTENERS
  value: {{ include "tidegate.advertised" $root | quote }}
- name: TIDEGATE_PEER_ADVERTISED_LISTENER
  value: {{ printf "%s:%d" (include "tidegate.podHost" $root) (int $root.Values.peers.port) | quote }}
{{- if not $root.Values.playground }}
# A StatefulSet never runs two pods of a name.  The secret tells this cluster from another one.
- name: TIDEGATE_INSTANCE_KEY
  value: {{ printf "$(POD_NAME)-${dir:/etc/tidegate/secrets:%s}" $root.Values.secrets.instanceKey | quote }}
{{- end }}
{{- with $root.Values.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "tidegate.gatewayPorts" -}}
{{- $processes := int .Values.processes -}}
{{- range .Values.listeners -}}
{{- $listener := . -}}
{{- range $i := until $processes }}
- name: {{ printf "%s-%d" (lower $listener.name | replace "_" "-" | trunc 10 | trimSuffix "-") (add $i 1) }}
  containerPort: {{ add $listener.port $i }}
{{- end }}
{{- end }}
{{- range $i := until $processes }}
- name: peer-{{ add $i 1 }}
  containerPort: {{ add $.Values.peers.port $i }}
{{- end }}
- name: admin
  containerPort: {{ .Values.admin.port }}
{{- end -}}

{{- define "tidegate.gatewayVolumes" -}}
- name: settings
  configMap: {name: {{ include "tidegate.fullname" . }}}
{{- with .Values.secrets.name }}
- name: secrets
  secret: {secretName: {{ . }}, defaultMode: 288}  # 0440
{{- end }}
{{- range $i, $name := include "tidegate.tlsSecrets" . | fromJsonArray }}
- name: tls-{{ $i }}
  secret: {secretName: {{ $name }}, defaultMode: 288}
{{- end }}
- name: data
  emptyDir: {sizeLimit: 64Mi}
{{- if .Values.cache.enabled }}
- name: cache
  # A tenth more than the gateways' own bound: kubelet evicts a pod that passes its limit.
  emptyDir: {sizeLimit: {{ div (mul (int64 .Values.cache.maxBytes) (int .Values.processes) 11) 10 | quote }}}
{{- end }}
- name: tmp
  emptyDir: {sizeLimit: {{ .Values.tmpSizeLimit }}}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "tidegate.gatewayMounts" -}}
- {name: settings, mountPath: /etc/tidegate/server.properties, subPath: server.properties, readOnly: true}
{{- if .Values.secrets.name }}
- {name: secrets, mountPath: /etc/tidegate/secrets, readOnly: true}
{{- end }}
{{- range $i, $name := include "tidegate.tlsSecrets" . | fromJsonArray }}
- {name: tls-{{ $i }}, mountPath: /etc/tidegate/tls/{{ $name }}, readOnly: true}
{{- end }}
- {name: data, mountPath: /var/lib/tidegate}
{{- if .Values.cache.enabled }}
- {name: cache, mountPath: /var/cache/tidegate}
{{- end }}
- {name: tmp, mountPath: /tmp}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}
