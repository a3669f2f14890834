rootProject.name = "gradle-sample"
