"""Requests that Dagster's page sends to its web server."""

LAUNCH = """
mutation ($params: ExecutionParams!) {
  launchPipelineExecution(executionParams: $params) { __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } }
}
"""

STATUS = "{ runsOrError { ... on Runs { results { runId status } } } }"
