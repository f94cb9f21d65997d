"""The local Airflow of a project: packages, configuration, processes and the REST API. No package of Airflow is imported."""
